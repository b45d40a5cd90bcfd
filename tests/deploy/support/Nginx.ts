import { spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { delimiter, join } from "node:path"
import { temporaryDirectory, until } from "@kiln/service-lab"
import { repository } from "../../support/plantTree.ts"
import { freePort } from "./heldSocket.ts"

/** Returns the path of a program, also of those for administrators; `undefined` if it is not installed. */
export const findProgram = (name: string): string | undefined =>
  [...(process.env["PATH"] ?? "").split(delimiter), "/usr/sbin", "/sbin"]
    .map((directory) => join(directory, name))
    .find((path) => existsSync(path))

/** Replaces a text that must occur. */
const replaceIn = (text: string, from: string, to: string): string => {
  if (!text.includes(from)) throw new Error(`does not contain ${from}`)
  return text.replaceAll(from, to)
}

/** Makes a certificate for loopback, signed by itself. */
const makeCertificate = (directory: string): { readonly certificate: string; readonly key: string } => {
  const [certificate, key] = [join(directory, "certificate.pem"), join(directory, "key.pem")]
  const subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1,DNS:kiln.example.com"]
  const args = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
  const { status, stderr } = spawnSync("openssl", [...args, ...subject, "-keyout", key, "-out", certificate], {
    encoding: "utf8",
  })
  if (status !== 0) throw new Error(`openssl made no certificate: ${stderr}`)
  return { certificate, key }
}

/** The file of `deploy/`, for these processes and ports, with nothing else changed. */
const siteConfig = (
  ports: readonly [number, number],
  port: number,
  files: ReturnType<typeof makeCertificate>,
): string =>
  [
    ["127.0.0.1:8787", `127.0.0.1:${ports[0]}`],
    ["127.0.0.1:8788", `127.0.0.1:${ports[1]}`],
    ["listen 443 ssl http2", `listen 127.0.0.1:${port} ssl http2`],
    ["    listen [::]:443 ssl http2;\n", ""],
    ["    listen [::]:80;\n", ""],
    ["listen 80", `listen 127.0.0.1:${freePort()}`],
    ["/etc/letsencrypt/live/kiln.example.com/fullchain.pem", files.certificate],
    ["/etc/letsencrypt/live/kiln.example.com/privkey.pem", files.key],
  ].reduce(
    (text, [from = "", to = ""]) => replaceIn(text, from, to),
    readFileSync(join(repository, "deploy/nginx/kiln.conf"), "utf8"),
  )

/** Everything around a site that Debian has in `nginx.conf`, within one directory. */
const mainConfig = (root: string): string =>
  `daemon off;
pid ${root}/nginx.pid;
error_log ${root}/error.log notice;
worker_processes 1;
events { worker_connections 4096; }
http {
  access_log ${root}/access.log;
  ${["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) => `${name}_temp_path ${root}/${name};`).join("\n  ")}
  include ${root}/kiln.conf;
}
`

/** An nginx with the configuration of `deploy/`, in front of two API processes. */
export class Nginx implements AsyncDisposable {
  readonly port = freePort()
  readonly #directory = temporaryDirectory()
  readonly #child
  /** The certificate to trust. */
  readonly ca: string

  /** Checks the configuration and returns what nginx says, which ends with `test is successful`. */
  static test(program: string): string {
    using directory = temporaryDirectory()
    prepare(directory.path, [8787, 8788], 443)
    return spawnSync(
      program,
      ["-t", "-e", join(directory.path, "error.log"), "-c", join(directory.path, "nginx.conf")],
      { encoding: "utf8" },
    ).stderr
  }

  constructor(program: string, ports: readonly [number, number]) {
    const root = this.#directory.path
    this.ca = readFileSync(prepare(root, ports, this.port).certificate, "utf8")
    const args = ["-e", join(root, "error.log"), "-c", join(root, "nginx.conf")]
    this.#child = spawn(program, args, { stdio: ["ignore", "inherit", "inherit"] })
  }

  get url(): string {
    return `https://127.0.0.1:${this.port}`
  }

  /** Waits until it listens. */
  async listening(): Promise<this> {
    await until(() => {
      if (this.#child.exitCode !== null) throw new Error(`nginx ended:\n${this.errors()}`)
      return existsSync(join(this.#directory.path, "nginx.pid")) ? true : undefined
    })
    return this
  }

  errors(): string {
    const path = join(this.#directory.path, "error.log")
    return existsSync(path) ? readFileSync(path, "utf8") : ""
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = once(this.#child, "exit")
    if (this.#child.exitCode === null) {
      this.#child.kill("SIGTERM")
      await ended
    }
    this.#directory[Symbol.dispose]()
  }
}

const prepare = (root: string, ports: readonly [number, number], port: number) => {
  mkdirSync(root, { recursive: true })
  const files = makeCertificate(root)
  writeFileSync(join(root, "kiln.conf"), siteConfig(ports, port, files))
  writeFileSync(join(root, "nginx.conf"), mainConfig(root))
  return files
}
