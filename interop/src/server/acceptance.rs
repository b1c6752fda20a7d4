//! The answer to a datagram that belongs to no connection: a new one, a reply, or nothing.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use gallop::stack::quiche::Selection;
use quiche::{Config, Header, RecvInfo, Type};

use crate::outbox::{Outbox, Pacing};
use crate::server::chooser::Chooser;
use crate::server::post::Post;
use crate::server::reset::Resets;
use crate::server::retry::Tokens;
use crate::server::room::Room;
use crate::server::rules::Facts;
use crate::server::session::Session;

/// A client's first datagram is at least this long (RFC 9000 §14.1).
const MIN_INITIAL_BYTES: usize = 1_200;

/// A client's first destination connection id is at least this long (RFC 9000 §7.2).
const MIN_INITIAL_ID_BYTES: usize = 8;

/// The settings for new connections, which all threads share.
#[derive(Clone)]
pub(super) struct Acceptance {
    /// The settings of QUIC and TLS. There is one for all threads, so that a client can resume its
    /// session with any of them.
    pub(super) config: Arc<Mutex<Config>>,
    pub(super) chooser: Arc<Chooser>,
    pub(super) pacing: Pacing,
    pub(super) tokens: Tokens,
    pub(super) resets: Resets,
    /// If true every client proves its address, otherwise only while half of the room is taken.
    pub(super) always_retry: bool,
    pub(super) room: Arc<Room>,
    pub(super) handshake_timeout: Duration,
    /// True if the server is ending and accepts no more.
    pub(super) is_leaving: bool,
}

/// The answer to a datagram that belongs to no connection.
pub(super) enum Answer {
    /// It is ignored.
    None,
    /// It is ignored, since all room is taken.
    Full,
    /// This datagram goes back to the sender.
    Reply(Vec<u8>),
    /// A new connection, which is to read it.
    Session(Box<Accepted>),
}

/// A new connection.
pub(super) struct Accepted {
    pub(super) session: Session,
    /// Its controller, if that is known before the handshake.
    pub(super) controller: Option<Selection>,
}

impl Acceptance {
    /// Decides about a datagram. A new connection belongs to the thread of `post`.
    ///
    /// # Errors
    ///
    /// quiche cannot make the reply or the connection, or there is no randomness.
    pub(super) fn accept(
        &mut self,
        datagram_bytes: usize,
        header: &Header<'_>,
        info: RecvInfo,
        post: &Post,
    ) -> quiche::Result<Answer> {
        if header.ty == Type::Short {
            let port = info.to.port();
            let reset = self.resets.answer(&header.dcid, port, datagram_bytes)?;
            return Ok(reset.map_or(Answer::None, Answer::Reply));
        }
        let mut reply = [0; MIN_INITIAL_BYTES];
        if datagram_bytes < MIN_INITIAL_BYTES {
            return Ok(Answer::None);
        }
        let is_long = !matches!(header.ty, Type::Short | Type::VersionNegotiation);
        if is_long && !quiche::version_is_supported(header.version) {
            let length = quiche::negotiate_version(&header.scid, &header.dcid, &mut reply)?;
            return Ok(Answer::Reply(reply[..length].to_vec()));
        }
        let is_beginning = header.ty == Type::Initial && header.dcid.len() >= MIN_INITIAL_ID_BYTES;
        if !is_beginning || self.is_leaving {
            return Ok(Answer::None);
        }
        if self.room.is_full() {
            return Ok(Answer::Full);
        }
        let token = header.token.as_deref().unwrap_or_default();
        let mut id = post.connection_id()?;
        let mut original = None;
        // Half of the room is for clients whose address is proven (RFC 9000 §8.1.2): an attacker
        // who forges addresses cannot take it.
        let is_filling = self.room.is_half_full();
        let now = SystemTime::now();
        // Also when no token is asked for any more: the client expects to be told the connection IDs
        // of the Retry that it follows (RFC 9000 §7.3).
        let is_answer = !token.is_empty();
        if is_answer || self.always_retry || is_filling {
            original = self.tokens.check(token, info.from, &header.dcid, now);
            if original.is_none() && (self.always_retry || is_filling) {
                let token = self.tokens.make(info.from, &header.dcid, &id, now)?;
                let length = quiche::retry(
                    &header.scid,
                    &header.dcid,
                    &id,
                    &token,
                    header.version,
                    &mut reply,
                )?;
                return Ok(Answer::Reply(reply[..length].to_vec()));
            }
        }
        if original.is_some() {
            // The id of the Retry stays, so that the client need not change it again.
            id = header.dcid.clone().into_owned();
        }
        let mut chance = [0; 4];
        boring::rand::rand_bytes(&mut chance).map_err(|_| quiche::Error::CryptoFail)?;
        let facts = Facts {
            client: info.from,
            local: info.to,
            chance: f64::from(u32::from_be_bytes(chance)) / f64::from(u32::MAX),
        };
        let controller = self.chooser.choose_before_handshake(&facts).cloned();
        let Some(place) = self.room.take() else {
            return Ok(Answer::Full);
        };
        let reset_token = self.resets.token(&id, info.to.port())?;
        let connection = {
            let mut config = self.config.lock().unwrap_or_else(PoisonError::into_inner);
            controller
                .as_ref()
                .unwrap_or(self.chooser.otherwise())
                .configure(&mut config)?;
            config.set_stateless_reset_token(Some(reset_token));
            quiche::accept(&id, original.as_ref(), info.to, info.from, &mut config)?
        };
        let ids = vec![id, header.dcid.clone().into_owned()];
        let outbox = Outbox::new(self.pacing);
        let establish_until = Instant::now() + self.handshake_timeout;
        Ok(Answer::Session(Box::new(Accepted {
            session: Session::new(connection, facts, ids, outbox, establish_until, place),
            controller,
        })))
    }
}
