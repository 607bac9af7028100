//! Processes under measurement, and what the kernel says of them.

use anyhow::{Context as _, Result, bail};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

const START_MAX: Duration = Duration::from_secs(60);
const STOP_MAX: Duration = Duration::from_secs(40);
const POLL: Duration = Duration::from_millis(2);
/// Clock ticks of `/proc/PID/stat` in a second, on every Linux that Rust runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// Where there is one, a file system in memory. On the disk of the servers, each sync of theirs would now and then wait for
/// the bytes of a log.
const MEMORY: &str = "/dev/shm";

/// A process of ours. Killed when dropped.
pub struct Running {
    child: Child,
    stderr: PathBuf,
}

impl Running {
    /// Starts it; its stderr goes to a file in memory, or else in `dir`.
    pub fn start(command: &mut Command, dir: &Path) -> Result<Self> {
        let mut named = tempfile::Builder::new();
        let named = named.prefix("oncefold-bench-stderr-");
        let (file, stderr) = named.tempfile_in(MEMORY).or_else(|_| named.tempfile_in(dir))?.keep()?;
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file).spawn();
        Ok(Self { child: child.with_context(|| format!("cannot start {command:?}"))?, stderr })
    }

    /// Waits for the address it announces for `intake` or `ops`.
    pub async fn address(&mut self, what: &str) -> Result<SocketAddr> {
        let line = self.line_after(&format!("{what:<8} http://")).await?;
        let host = line.split('/').next().unwrap_or_default();
        host.parse().with_context(|| format!("no address in `{line}`"))
    }

    /// Waits until `/readyz` of its ops address answers 200.
    pub async fn ready(&mut self) -> Result<()> {
        let ops = self.address("ops").await?;
        let deadline = Instant::now() + START_MAX;
        loop {
            if is_ready(ops).await.unwrap_or(false) {
                return Ok(());
            }
            self.expect_running()?;
            if Instant::now() > deadline {
                bail!("not ready within {START_MAX:?}:\n{}", self.stderr_tail());
            }
            sleep(POLL).await;
        }
    }

    /// Waits for a line that starts so; gives its rest.
    async fn line_after(&mut self, start: &str) -> Result<String> {
        let deadline = Instant::now() + START_MAX;
        loop {
            let stderr = std::fs::read_to_string(&self.stderr)?;
            let whole = stderr.rsplit_once('\n').map_or("", |(whole, _)| whole);
            if let Some(rest) = whole.lines().find_map(|line| line.strip_prefix(start)) {
                return Ok(rest.trim().to_owned());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("ended ({status}) before `{start}`:\n{}", self.stderr_tail());
            }
            if Instant::now() > deadline {
                bail!("no `{start}` within {START_MAX:?}:\n{}", self.stderr_tail());
            }
            sleep(POLL).await;
        }
    }

    /// Fails if it has ended, with the last it said.
    pub fn expect_running(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("ended ({status}):\n{}", self.stderr_tail()),
        }
    }

    fn stderr_tail(&self) -> String {
        let text = std::fs::read_to_string(&self.stderr).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// The highest resident memory it ever had, MiB.
    pub fn peak_rss_mib(&self) -> Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
        let kib: f64 = line.trim().trim_end_matches(" kB").trim().parse()?;
        Ok(kib / 1024.0)
    }

    /// Processor seconds it has used so far.
    pub fn cpu_seconds(&self) -> Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let (_, fields) = stat.rsplit_once(')').context("no fields in /proc/PID/stat")?;
        let ticks = |at: usize| fields.split_whitespace().nth(at).and_then(|field| field.parse::<f64>().ok());
        Ok((ticks(11).unwrap_or(0.0) + ticks(12).unwrap_or(0.0)) / TICKS_PER_SECOND)
    }

    /// Asks it to stop, and waits until it has.
    pub async fn stop(mut self) -> Result<()> {
        self.expect_running()?;
        let id = self.child.id().to_string();
        Command::new("kill").args(["-TERM", &id]).status().context("kill")?;
        let deadline = Instant::now() + STOP_MAX;
        while self.child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                bail!("does not stop within {STOP_MAX:?}:\n{}", self.stderr_tail());
            }
            sleep(POLL).await;
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.stderr);
    }
}

async fn is_ready(ops: SocketAddr) -> Result<bool> {
    let mut stream = TcpStream::connect(ops).await?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n").await?;
    let mut answer = vec![];
    stream.read_to_end(&mut answer).await?;
    Ok(answer.starts_with(b"HTTP/1.1 200 "))
}
