// The endpoint that golang.org/x/net brings for the QUIC interop runner.
module gallop.invalid/peers/x-net

go 1.25.0

require (
	golang.org/x/crypto v0.53.0 // indirect
	golang.org/x/net v0.56.0 // indirect
	golang.org/x/sys v0.46.0 // indirect
)

tool golang.org/x/net/internal/quic/cmd/interop
