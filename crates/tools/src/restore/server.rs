//! A private server on the restored files.
//!
//! It has no port, and its socket is in a directory that only its user can enter. It has the users of the backup, whose
//! passwords are unknown, so its init file creates one more, which is dropped at the end. (With `--skip-grant-tables`
//! statements about events would fail.) The server is stopped cleanly when this process ends for any reason: a shell,
//! in a process group of its own, waits for the end of a pipe.

use super::destination::Destination;
use super::programs::tail;
use crate::paths::private_directories;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const POLL_PERIOD: Duration = Duration::from_millis(100);

/// The system's limit of the path of a socket is 107 bytes.
const SOCKET_DIRECTORY_BYTES_MAX: usize = 90;

/// Executes its arguments, the server, and stops it when standard input ends. The first argument is a directory that is
/// removed then, also if this process was killed.
const SUPERVISOR: &str = r#"
exec 3<&0
private=$1
shift
"$@" </dev/null 3<&- &
server=$!
{ read -r _ <&3; kill -TERM $server; } >/dev/null 2>&1 &
reader=$!
exec 3<&-
wait $server
status=$?
kill $reader 2>/dev/null
rm -rf "$private"
exit $status
"#;

/// How to start the server.
pub(super) struct Launch<'a> {
    pub program: &'a Path,
    pub plugins: &'a Path,
    pub client: &'a Path,
    /// Lines of an option file.
    pub settings: &'a [String],
    pub options: &'a [String],
}

/// A directory that is removed at the end.
struct Private(PathBuf);

impl Drop for Private {
    fn drop(&mut self) {
        // It contains nothing that another restore would use.
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(super) struct PrivateServer {
    child: Child,
    client: PathBuf,
    log: PathBuf,
    user: String,
    private: Private,
}

/// A random name.
fn random_name() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Creates a directory that only the server's user can enter.
fn private_directory(place: &Destination) -> io::Result<Private> {
    let name = random_name()?;
    let name = format!("teak-restore-{}", name.get(..12).unwrap_or_default());
    let mut base = std::env::temp_dir();
    if base.as_os_str().len() + name.len() > SOCKET_DIRECTORY_BYTES_MAX {
        base = PathBuf::from("/tmp");
    }
    let path = base.join(name);
    private_directories().create(&path)?;
    let private = Private(path);
    give(place, &private.0)?;
    Ok(private)
}

fn give(place: &Destination, path: &Path) -> io::Result<()> {
    let (user, group) = place.owner;
    match place.own == user {
        true => Ok(()),
        false => chown(path, Some(user), Some(group)),
    }
}

fn write_private(place: &Destination, path: &Path, text: &str) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())?;
    give(place, path)
}

impl PrivateServer {
    /// Starts the server and waits until it answers.
    pub(super) fn start(launch: &Launch<'_>, place: &Destination) -> io::Result<Self> {
        let private = private_directory(place)?;
        let user = format!("teak_restore_{}", random_name()?);
        // Plugins that check passwords want characters of every kind.
        let password = format!("{}-Aa1", random_name()?);
        let file = |name: &str| private.0.join(name);
        let account = format!("'{user}'@'localhost'");
        let init = format!(
            "CREATE USER {account} IDENTIFIED BY '{password}';\nGRANT ALL PRIVILEGES ON *.* TO {account} WITH GRANT OPTION;\n"
        );
        write_private(place, &file("init.sql"), &init)?;
        let socket = file("server.sock");
        let client = format!(
            "[client]\nsocket={}\nuser={user}\npassword={password}\n",
            socket.display()
        );
        write_private(place, &file("client.cnf"), &client)?;
        let settings = format!("[mysqld]\n{}\n", launch.settings.join("\n"));
        write_private(place, &file("server.cnf"), &settings)?;
        place.change_owner()?;
        let log = place.log("server.log");
        let output = File::create(&log)?;
        let option = |name: &str, path: &Path| format!("--{name}={}", path.display());
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", SUPERVISOR, "sh"])
            .arg(&private.0)
            .arg(launch.program)
            .arg(option("defaults-file", &file("server.cnf")))
            .arg(option("datadir", &place.data))
            .arg(option("socket", &socket))
            .arg(option("pid-file", &file("server.pid")))
            .arg(option("init-file", &file("init.sql")))
            .arg(option("tmpdir", &place.temporary))
            .arg(option("plugin-dir", launch.plugins))
            .args([
                "--plugin-maturity=experimental",
                "--plugin-load-add=ha_teak",
                "--skip-networking",
                "--skip-log-bin",
                "--skip-slave-start",
                "--event-scheduler=OFF",
                "--secure-file-priv=",
                "--max-allowed-packet=1G",
                "--performance-schema=OFF",
                // The server is stopped cleanly, or the restore fails.
                "--innodb-flush-log-at-trx-commit=0",
                "--loose-teak-commit-sync=OFF",
                "--innodb-buffer-pool-dump-at-shutdown=OFF",
            ]);
        if place.own == 0 {
            command.arg(match place.owner.0 {
                0 => "--user=root".to_owned(),
                user => format!("--user={user}"),
            });
        }
        let child = command
            .args(launch.options)
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .spawn()?;
        let mut server = Self {
            child,
            client: launch.client.to_path_buf(),
            log,
            user,
            private,
        };
        server.wait_until_ready()?;
        Ok(server)
    }

    fn wait_until_ready(&mut self) -> io::Result<()> {
        let statement =
            "SELECT PLUGIN_STATUS FROM INFORMATION_SCHEMA.PLUGINS WHERE PLUGIN_NAME = 'TEAK'";
        loop {
            let output = self
                .client()
                .args(["--batch", "--skip-column-names", "--execute", statement])
                .stdin(Stdio::null())
                .output()?;
            if output.status.success() {
                let text = String::from_utf8_lossy(&output.stdout);
                return match text.trim() == "ACTIVE" {
                    true => Ok(()),
                    false => Err(self.failed("the private server cannot use Teak's tables")),
                };
            }
            if self.child.try_wait()?.is_some() {
                return Err(self.failed("the private server did not start"));
            }
            let refusal = String::from_utf8_lossy(&output.stderr);
            if refusal.contains("Access denied") {
                return Err(self.failed("the private server refuses its user"));
            }
            std::thread::sleep(POLL_PERIOD);
        }
    }

    fn failed(&self, what: &str) -> io::Error {
        io::Error::other(format!(
            "{what}; its messages are in {}, and end with:\n{}",
            self.log.display(),
            tail(&self.log)
        ))
    }

    /// A client of the server.
    pub(super) fn client(&self) -> Command {
        let mut command = Command::new(&self.client);
        let options = self.private.0.join("client.cnf");
        command.arg(format!("--defaults-file={}", options.display()));
        command
    }

    /// The last statement of the last client.
    pub(super) fn drop_user(&self) -> String {
        format!("DROP USER '{}'@'localhost';\n", self.user)
    }

    /// The client ignores an incomplete statement at the end of its input. Then the user still exists.
    pub(super) fn check_end(&self) -> io::Result<()> {
        let output = self.client().args(["--execute", "DO 1"]).output()?;
        let refusal = String::from_utf8_lossy(&output.stderr);
        match !output.status.success() && refusal.contains("Access denied") {
            true => Ok(()),
            false => Err(io::Error::other(format!(
                "not all transactions were applied: the input of the client ended within a statement. {}",
                refusal.trim()
            ))),
        }
    }

    /// Stops the server, which writes all changes to its files.
    pub(super) fn stop(mut self) -> io::Result<()> {
        drop(self.child.stdin.take());
        let status = self.child.wait()?;
        match status.success() {
            true => Ok(()),
            false => Err(self.failed(&format!("the private server has failed ({status})"))),
        }
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // After `stop` this returns immediately; after an error that error matters.
        let _ = self.child.wait();
    }
}
