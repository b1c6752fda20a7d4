//! The qlog of a connection.

use std::io::Write;
use std::sync::{Arc, Mutex};

use quiche::Connection;

/// A qlog in memory.
#[derive(Clone, Default)]
pub struct Qlog(Arc<Mutex<Vec<u8>>>);

impl Qlog {
    /// The qlog that this connection writes from now on.
    pub fn of(connection: &mut Connection) -> Qlog {
        let qlog = Qlog::default();
        connection.set_qlog(Box::new(qlog.clone()), "test".to_owned(), "test".to_owned());
        qlog
    }

    /// The data of all events whose name ends so.
    pub fn events(&self, name: &str) -> Vec<serde_json::Value> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.split('\u{1e}')
            .filter(|record| !record.trim().is_empty())
            .map(|record| serde_json::from_str(record).unwrap())
            .filter(|event: &serde_json::Value| {
                event["name"].as_str().is_some_and(|n| n.ends_with(name))
            })
            .map(|mut event| event["data"].take())
            .collect()
    }
}

impl Write for Qlog {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
