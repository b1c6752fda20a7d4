//! A registered controller in tokio-quiche, selected by the string of its settings.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio_quiche::metrics::DefaultMetrics;
use tokio_quiche::quic::{connect_with_config, HandshakeInfo, QuicheConnection};
use tokio_quiche::settings::{
    CertificateKind, ConnectionParams, Hooks, QuicSettings, TlsCertificatePaths,
};
use tokio_quiche::socket::Socket;
use tokio_quiche::{ApplicationOverQuic, QuicResult};
use tokio_stream::StreamExt;

use crate::recorder::Recorder;

/// The stream that the server sends on.
const STREAM: u64 = 3;

/// The number of bytes that the server sends on it.
const BYTES: usize = 50_000;

/// Sends on the server's stream, or reads it to its end.
struct Application {
    to_send: usize,
    finished: Option<mpsc::UnboundedSender<usize>>,
    received: usize,
}

impl ApplicationOverQuic for Application {
    fn on_conn_established(
        &mut self,
        _connection: &mut QuicheConnection,
        _info: &HandshakeInfo,
    ) -> QuicResult<()> {
        Ok(())
    }

    fn should_act(&self) -> bool {
        true
    }

    async fn wait_for_data(&mut self, _connection: &mut QuicheConnection) -> QuicResult<()> {
        std::future::pending().await
    }

    fn process_reads(&mut self, connection: &mut QuicheConnection) -> QuicResult<()> {
        let mut buffer = [0; 4096];
        while let Ok((length, end)) = connection.stream_recv(STREAM, &mut buffer) {
            self.received += length;
            if let Some(finished) = self.finished.take_if(|_| end) {
                finished.send(self.received)?;
            }
        }
        Ok(())
    }

    fn process_writes(&mut self, connection: &mut QuicheConnection) -> QuicResult<()> {
        while self.to_send > 0 {
            match connection.stream_send(STREAM, &vec![0; self.to_send], true) {
                Ok(0) | Err(_) => break,
                Ok(written) => self.to_send -= written,
            }
        }
        Ok(())
    }
}

fn settings(cc_algorithm: &str) -> QuicSettings {
    let mut settings = QuicSettings::default();
    settings.cc_algorithm = cc_algorithm.to_owned();
    settings
}

#[tokio::test]
async fn cc_algorithm_selects_a_registered_controller_with_options() {
    let made: Arc<Mutex<Vec<(String, Recorder)>>> = Arc::default();
    let selected = Arc::clone(&made);
    quiche::register_cc_algorithm("tokio", move |options| {
        let recorder = Recorder::new(options.parse()?);
        let mut made = made.lock().unwrap();
        made.push((options.to_owned(), recorder.clone()));
        Ok(recorder.factory())
    })
    .unwrap();

    let tls = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sim/tls");
    let file = |name: &str| tls.join(name).to_string_lossy().into_owned();
    let certificate = TlsCertificatePaths {
        cert: &file("cert.pem"),
        private_key: &file("key.pem"),
        kind: CertificateKind::X509,
    };
    let params = |cc_algorithm: &str| {
        ConnectionParams::new_server(settings(cc_algorithm), certificate, Hooks::default())
    };
    let bind = async || UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let refused = tokio_quiche::listen([bind().await], params("tokio:wide"), DefaultMetrics);
    assert!(refused.is_err());

    let socket = bind().await;
    let address = socket.local_addr().unwrap();
    let mut incoming =
        tokio_quiche::listen([socket], params("tokio:30000"), DefaultMetrics).unwrap();
    tokio::spawn(async move {
        let connection = incoming[0].next().await.unwrap().unwrap();
        connection.start(Application {
            to_send: BYTES,
            finished: None,
            received: 0,
        });
        std::future::pending::<()>().await
    });

    let socket = bind().await;
    socket.connect(address).await.unwrap();
    let (finished, mut received) = mpsc::unbounded_channel();
    let application = Application {
        to_send: 0,
        finished: Some(finished),
        received: 0,
    };
    let client = ConnectionParams::new_client(settings("reno"), None, Hooks::default());
    let socket = Socket::try_from(socket).unwrap();
    let _client = connect_with_config(socket, None, &client, application)
        .await
        .unwrap();
    let received = tokio::time::timeout(Duration::from_secs(60), received.recv()).await;
    assert_eq!(received.expect("within a minute"), Some(BYTES));

    let selected = selected.lock().unwrap();
    assert_eq!(selected.len(), 1);
    let (options, recorder) = &selected[0];
    assert_eq!(options, "30000");
    let log = recorder.log();
    let path = log.paths.first().expect("a controller");
    assert!(path.sent.iter().map(|p| p.size).sum::<usize>() > BYTES);
    assert!(path.sent.iter().all(|p| p.bytes_in_flight <= 30_000));
    assert_eq!(path.differences, []);
}
