//! `fettle login`, at a real OpenID provider (npm's `oidc-provider`) and a plane that believes it.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
};

use fettle_plane::{
    Plane, PlaneConfig, RunningPlane,
    administration::{Administration, project},
};
use reqwest::{Client, Method, Response, Url, header, redirect};
use serde_json::{Value, json};

/// Where `cargo xtask test` puts the package.
fn package() -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"), PathBuf::from);
    let package = target.join("tools/openid/node_modules/oidc-provider");
    if package.is_dir() {
        return Some(package);
    }
    assert!(std::env::var_os("FETTLE_TEST_ALL").is_none(), "{} is missing; run `cargo xtask test`", package.display());
    println!("skipped: {} is missing; `cargo xtask test` installs it", package.display());
    None
}

/// A provider, a plane that believes it, and a place for the context file.
struct World {
    issuer: String,
    plane: RunningPlane,
    directory: tempfile::TempDir,
    provider: Child,
    /// It ends when nobody hears it.
    _said: BufReader<ChildStdout>,
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.provider.kill();
        let _ = self.provider.wait();
    }
}

impl World {
    async fn new() -> Option<Self> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plane/tests/it/openid/provider.mjs");
        let mut provider = Command::new("node")
            .arg(script)
            .arg(package()?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut issuer = String::new();
        let mut said = BufReader::new(provider.stdout.take().unwrap());
        said.read_line(&mut issuer).unwrap();
        let issuer = issuer.trim().to_owned();
        let directory = tempfile::tempdir().unwrap();
        let rules = json!([{ "claims": { "groups": "ml" }, "role": "project_viewer", "project": "demo" }]);
        let document = json!({ "issuers": [{ "issuer": issuer, "audience": "fettle", "rules": rules }] });
        let openid = directory.path().join("openid.yaml");
        std::fs::write(&openid, document.to_string()).unwrap();
        let config = PlaneConfig { openid: Some(openid), ..PlaneConfig::new(directory.path().join("plane")) };
        let plane = Plane::start(config).await.unwrap();
        let administration = Administration::open(&directory.path().join("plane")).await.unwrap();
        administration.ensure_project(project("demo".parse().unwrap(), None).unwrap()).await.unwrap();
        administration.close().await;
        Some(Self { issuer, plane, directory, provider, _said: said })
    }

    fn fettle(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fettle"));
        command.args(arguments).env("FETTLE_CONTEXT", self.context()).env_remove("FETTLE_TOKEN");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn context(&self) -> PathBuf {
        self.directory.path().join("context.json")
    }

    fn kept(&self) -> Value {
        serde_json::from_str(&std::fs::read_to_string(self.context()).unwrap()).unwrap()
    }

    /// Runs it; the exit code and what it printed.
    fn run(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = self.fettle(arguments).output().unwrap();
        let printed = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(printed).unwrap())
    }

    /// Starts to log in; the address that a person is to open.
    fn begin(&self) -> (Child, BufReader<std::process::ChildStderr>, String) {
        let plane = format!("http://{}", self.plane.http_address());
        let arguments = [
            "login",
            "--json",
            "--plane",
            &plane,
            "--issuer",
            &self.issuer,
            "--client-id",
            "fettle",
            "--scope",
            "email",
        ];
        let mut child = self.fettle(&arguments).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let place = line.trim().strip_prefix("Open ").unwrap_or_else(|| panic!("{line}")).to_owned();
        (child, said, place)
    }
}

/// What a person does in a browser: follows what is shown, and keeps cookies.
struct Browser {
    http: Client,
    cookies: BTreeMap<String, String>,
}

impl Browser {
    fn new() -> Self {
        Self {
            http: Client::builder().redirect(redirect::Policy::none()).pool_max_idle_per_host(0).build().unwrap(),
            cookies: BTreeMap::new(),
        }
    }

    /// Asks, and follows; the page and where it is.
    async fn go(&mut self, mut method: Method, place: &str, form: &[(&str, &str)]) -> (Url, String) {
        let mut place: Url = place.parse().unwrap();
        let mut body = form.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&");
        for _ in 0..10 {
            let cookies: Vec<String> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let mut request =
                self.http.request(method.clone(), place.clone()).header(header::COOKIE, cookies.join("; "));
            if method == Method::POST {
                request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded").body(body.clone());
            }
            let response: Response = request.send().await.unwrap();
            for cookie in response.headers().get_all(header::SET_COOKIE) {
                let pair = cookie.to_str().unwrap().split(';').next().unwrap();
                let (name, value) = pair.split_once('=').unwrap();
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
            match response.headers().get(header::LOCATION) {
                Some(next) => place = place.join(next.to_str().unwrap()).unwrap(),
                None => return (place, response.text().await.unwrap()),
            }
            (method, body) = (Method::GET, String::new());
        }
        panic!("it leads nowhere: {place}");
    }

    /// Lets a program in, as `alice`: confirms the code, logs in, consents.
    async fn let_in(&mut self, place: &str) {
        let (mut at, mut page) = self.go(Method::GET, place, &[]).await;
        for _ in 0..6 {
            if !page.contains("<form") {
                break;
            }
            let hidden = |name: &str| {
                let (_, rest) = page.split_once(&format!("name=\"{name}\""))?;
                rest.split_once("value=\"")?.1.split('"').next().map(str::to_owned)
            };
            let (action, form): (String, Vec<(&str, String)>) = match hidden("prompt").as_deref() {
                Some("login") => {
                    let form = [("prompt", "login"), ("login", "alice"), ("password", "x")];
                    (at.to_string(), form.map(|(name, value)| (name, value.to_owned())).into())
                }
                Some(other) => (at.to_string(), vec![("prompt", other.to_owned())]),
                None => {
                    let (xsrf, code) = (hidden("xsrf").unwrap(), hidden("user_code").unwrap_or_default());
                    let form = vec![("xsrf", xsrf), ("user_code", code), ("confirm", "yes".to_owned())];
                    (at.join("/device").unwrap().to_string(), form)
                }
            };
            let form: Vec<(&str, &str)> = form.iter().map(|(name, value)| (*name, value.as_str())).collect();
            (at, page) = self.go(Method::POST, &action, &form).await;
        }
        assert!(!page.contains("<form"), "{at}: {page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_is_let_in_once_and_the_token_is_renewed_by_itself() {
    let Some(world) = World::new().await else { return };
    let (child, mut said, place) = world.begin();
    Browser::new().let_in(&place).await;
    let output = child.wait_with_output().unwrap();
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert!(output.status.success(), "{rest}");
    let done: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&done["issuer"], &done["renews"]), (&json!(world.issuer), &json!(true)));
    let kept = world.kept();
    let (first, refresh) = (kept["token"].as_str().unwrap(), kept["login"]["refresh_token"].as_str().unwrap());
    for secret in [first, refresh] {
        assert!(!rest.contains(secret) && !String::from_utf8_lossy(&output.stdout).contains(secret));
    }
    // Whoever logs in has the role that the claims give, and the name of the person.
    assert_eq!(world.run(&["operation", "list", "--project", "demo"]).0, Some(0));
    let (code, refused) = world.run(&["operation", "list", "--project", "other"]);
    assert_eq!(code, Some(4), "{refused}");
    // It has nearly ended.
    let mut context = kept.clone();
    context["login"]["expires_at"] = json!("2020-01-01T00:00:00Z");
    context["token"] = json!("worthless");
    std::fs::write(world.context(), context.to_string()).unwrap();
    let (code, printed) = world.run(&["operation", "list", "--project", "demo"]);
    assert_eq!(code, Some(0), "{printed}");
    assert_ne!(world.kept()["token"], json!("worthless"));
    // The next one is used as it is.
    let renewed = world.kept();
    assert_eq!(world.run(&["operation", "list", "--project", "demo"]).0, Some(0));
    assert_eq!(world.kept(), renewed);
    assert_eq!(world.run(&["logout"]).0, Some(0));
    let (code, printed) = world.run(&["operation", "list", "--project", "demo"]);
    assert_eq!(code, Some(2), "{printed}");
    assert!(printed.contains("fettle login") && world.kept()["login"].is_null(), "{printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_login_is_said_and_nothing_is_kept() {
    let Some(world) = World::new().await else { return };
    let plane = format!("http://{}", world.plane.http_address());
    let login = |issuer: &str, client: &str| {
        world.run(&["login", "--plane", &plane, "--issuer", issuer, "--client-id", client])
    };
    for (issuer, client, code, sentence) in [
        (world.issuer.as_str(), "nobody", 5, "refuses"),
        (&format!("{}/", world.issuer), "fettle", 6, "letter by letter"),
        ("http://login.example", "fettle", 2, "is no issuer"),
        (&plane, "fettle", 6, "it answered 404"),
        ("http://127.0.0.1:9", "fettle", 6, "cannot be asked"),
    ] {
        let (answered, printed) = login(issuer, client);
        assert_eq!(answered, Some(code), "{issuer} {client}: {printed}");
        assert!(printed.contains(sentence), "{issuer} {client}: {printed}");
    }
    let (code, printed) = world.run(&["login"]);
    assert_eq!(code, Some(2), "{printed}");
    assert!(!world.context().exists());
}
