import type { Backend } from "./Backends.ts"
import type { StopMode } from "./Postmaster.ts"

export interface ClusterOptions {
  /** Whether a commit waits for the disk. Off by default: of a killed server nothing is lost either way, only of a killed machine. */
  readonly fsync?: boolean
  /** Keeps the data in memory where the machine has plenty: quick while others keep the disk busy. Off by default. */
  readonly inMemory?: boolean
  /** Further server settings, by their names in postgresql.conf. */
  readonly settings?: Readonly<Record<string, string | number | boolean>>
}

/** A Postgres of one's own on 127.0.0.1: port, password and data stay the same over every stop and start. */
export interface Cluster extends AsyncDisposable {
  /** Of an ordinary role (may create databases and roles) and its own database. */
  readonly url: string
  /** Of the superuser, for whom the server keeps connections back when `max_connections` are in use. */
  readonly adminUrl: string
  readonly port: number
  readonly directory: string
  /** The server's process, or undefined while it does not run. */
  readonly pid: () => number | undefined
  readonly start: () => Promise<void>
  readonly stop: (mode: StopMode) => Promise<void>
  readonly restart: (mode: StopMode) => Promise<void>
  /** SIGKILL for all of the server's processes; `start` brings it back. */
  readonly kill9: () => Promise<void>
  /** The connections of others, oldest first. */
  readonly backends: () => Promise<ReadonlyArray<Backend>>
  /** Ends what the backend runs, but not its connection; false when it is gone already. */
  readonly cancel: (pid: number) => Promise<boolean>
  /** Ends the backend's connection; false when it is gone already. */
  readonly terminate: (pid: number) => Promise<boolean>
  /** Freezes the backend: its connection stays open and says nothing more. */
  readonly pause: (pid: number) => void
  readonly resume: (pid: number) => void
  /** All that the server has logged since the first start. */
  readonly log: () => string
  /** Stops the server and removes the directory; also done when this process dies, in whatever way. */
  readonly dispose: () => Promise<void>
}
