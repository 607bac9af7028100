//! A running process of the product.

use crate::wait;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const START_MAX: Duration = Duration::from_secs(40);
const STOP_MAX: Duration = Duration::from_secs(40);

/// A role, or all of them, as a process. Killed when dropped.
pub struct Running {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    /// Reads stderr to its end, which comes with the process's.
    reader: Option<std::thread::JoinHandle<()>>,
    ended: Option<ExitStatus>,
}

impl Running {
    /// Starts the binary under test.
    pub fn start(command: &mut Command) -> Self {
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("spawn");
        let lines = Arc::new(Mutex::new(vec![]));
        let (sink, stderr) = (Arc::clone(&lines), child.stderr.take().expect("piped"));
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
                sink.lock().unwrap().push(String::from_utf8_lossy(&line).into_owned());
            }
        });
        Self { child, lines, reader: Some(reader), ended: None }
    }

    /// Everything it wrote to stderr so far.
    pub fn stderr(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// Waits for a line that starts so; gives the rest of it.
    pub fn line_after(&mut self, start: &str) -> String {
        let deadline = Instant::now() + START_MAX;
        loop {
            let lines = self.stderr();
            if let Some(rest) = lines.iter().find_map(|line| line.strip_prefix(start)) {
                return rest.trim().to_owned();
            }
            let status = self.child.try_wait().expect("wait");
            assert!(status.is_none(), "ended with {status:?} before `{start}`:\n{}", lines.join("\n"));
            assert!(Instant::now() < deadline, "no line `{start}` within {START_MAX:?}:\n{}", lines.join("\n"));
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The address it announces for `intake`, `admin` or `ops`.
    pub fn address(&mut self, what: &str) -> SocketAddr {
        let line = self.line_after(&format!("{what:<8} http://"));
        let host = line.split('/').next().expect("an address");
        host.parse().unwrap_or_else(|_| panic!("no address in `{line}`"))
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by name, such as `TERM`, `KILL`, `STOP`, `CONT`, `HUP`.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args([&format!("-{name}"), &self.pid().to_string()]).status().expect("kill");
        assert!(status.success(), "kill -{name} {}", self.pid());
    }

    /// Kills it without a chance to finish, and waits until it is gone.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        self.ended = self.child.wait().ok();
        self.read_to_end();
    }

    /// What the process wrote last may still be on its way to us.
    fn read_to_end(&mut self) {
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }

    /// Asks it to stop; gives its exit code.
    pub fn stop(&mut self) -> Option<i32> {
        self.signal("TERM");
        self.wait()
    }

    /// Waits until it has ended; gives its exit code.
    pub fn wait(&mut self) -> Option<i32> {
        let lines = Arc::clone(&self.lines);
        let status = wait::until("the process ends", STOP_MAX, || match self.child.try_wait().expect("wait") {
            Some(status) => Ok(status),
            None => Err(lines.lock().unwrap().iter().rev().take(20).cloned().collect::<Vec<_>>()),
        });
        self.ended = Some(status);
        self.read_to_end();
        status.code()
    }

    /// Whether it runs.
    pub fn is_running(&mut self) -> bool {
        self.ended.is_none() && self.child.try_wait().expect("wait").is_none()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.ended.is_none() {
            self.kill();
        }
        if std::thread::panicking() {
            eprintln!("--- stderr of process {}:", self.pid());
            for line in self.stderr().iter().rev().take(60).rev() {
                eprintln!("{line}");
            }
        }
    }
}
