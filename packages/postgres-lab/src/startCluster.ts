import { execFile } from "node:child_process"
import { randomBytes } from "node:crypto"
import { readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { binaries, type RunAs, runAs } from "./binaries.ts"
import { backendsAt } from "./Backends.ts"
import type { Cluster, ClusterOptions } from "./Cluster.ts"
import { freePort } from "./freePort.ts"
import { labDirectory, memoryDirectory } from "./labDirectory.ts"
import { Postmaster, type StopMode } from "./Postmaster.ts"
import { watchdog } from "./watchdog.ts"
import { withClient } from "./withClient.ts"

/** Creates and starts a new cluster; takes about one second. */
export const startCluster = async (options: ClusterOptions = {}): Promise<Cluster> => {
  const user = runAs()
  const directory = labDirectory(user)
  const bin = binaries(directory, user)
  const guard = watchdog(bin, directory, user)
  try {
    const memory = options.inMemory === true ? memoryDirectory(user) : undefined
    if (memory !== undefined) symlinkSync(memory, join(directory, "data"))
    const password = randomBytes(12).toString("hex")
    await initialize(bin, directory, user, password)
    const port = await freePort()
    const postmaster = new Postmaster({ bin, directory, user, arguments: serverArguments(port, options) })
    await postmaster.start()
    const urlOf = (role: string, database: string) => `postgres://${role}:${password}@127.0.0.1:${port}/${database}`
    const adminUrl = urlOf("postgres", "postgres")
    await withClient(adminUrl, async (client) => {
      await client.query(`CREATE ROLE kiln LOGIN CREATEDB CREATEROLE PASSWORD '${password}'`)
      await client.query("CREATE DATABASE kiln OWNER kiln")
    })
    const dispose = async (): Promise<void> => {
      await postmaster.stop("immediate")
      await guard.release()
    }
    return {
      url: urlOf("kiln", "kiln"),
      adminUrl,
      port,
      directory,
      ...controls(postmaster),
      ...backendsAt(adminUrl),
      dispose,
      [Symbol.asyncDispose]: dispose,
    }
  } catch (error) {
    await guard.release()
    throw error
  }
}

const initialize = async (bin: string, directory: string, user: RunAs, password: string): Promise<void> => {
  const passwordFile = join(directory, "password")
  writeFileSync(passwordFile, password, { mode: 0o644 })
  const locale = ["--encoding=UTF8", "--locale=C", "--no-instructions", "--no-sync"]
  const access = ["--username=postgres", "--auth=scram-sha-256", `--pwfile=${passwordFile}`]
  // A random password is safe without thousands of rounds, which every connection would have to compute.
  const cheap = ["--set=scram_iterations=1"]
  await promisify(execFile)(join(bin, "initdb"), ["-D", join(directory, "data"), ...locale, ...access, ...cheap], {
    ...user,
    cwd: directory,
    env: { LC_ALL: "C", TZ: "UTC" },
  })
}

const serverArguments = (port: number, { fsync = false, settings = {} }: ClusterOptions): ReadonlyArray<string> =>
  Object.entries({
    port,
    listen_addresses: "127.0.0.1",
    unix_socket_directories: "",
    // Shared memory as files in the data directory, which are removed with it even after the server was killed.
    dynamic_shared_memory_type: "mmap",
    fsync,
    log_line_prefix: "%m [%p] %a ",
    ...settings,
  }).flatMap(([name, value]) => ["-c", `${name}=${value}`])

const controls = (postmaster: Postmaster) => ({
  pid: () => postmaster.pid,
  start: () => postmaster.start(),
  stop: (mode: StopMode) => postmaster.stop(mode),
  restart: async (mode: StopMode) => {
    await postmaster.stop(mode)
    await postmaster.start()
  },
  kill9: () => postmaster.kill9(),
  pause: (pid: number) => postmaster.signal(pid, "SIGSTOP"),
  resume: (pid: number) => postmaster.signal(pid, "SIGCONT"),
  log: () => readFileSync(postmaster.logFile, "utf8"),
})
