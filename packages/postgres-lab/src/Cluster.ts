import type { Backend } from "./Backends.ts"
import type { StopMode } from "./Postmaster.ts"

export interface ClusterOptions {
  /** Whether a commit waits for the disk. Off by default: a killed server loses nothing either way, only a killed machine would. */
  readonly fsync?: boolean
  /** Keeps the data in memory if enough is free, which is fast even when the disk is busy. Off by default. */
  readonly inMemory?: boolean
  /** Additional server settings, by their names in postgresql.conf. */
  readonly settings?: Readonly<Record<string, string | number | boolean>>
}

/** A dedicated Postgres server on 127.0.0.1. Port, password and data stay the same across stops and starts. */
export interface Cluster extends AsyncDisposable {
  /** URL of an ordinary role (which may create databases and roles) and its database. */
  readonly url: string
  /** URL of the superuser, for whom the server reserves connections when `max_connections` are in use. */
  readonly adminUrl: string
  readonly port: number
  readonly directory: string
  /** Returns the process id of the server, or undefined if it is not running. */
  readonly pid: () => number | undefined
  readonly start: () => Promise<void>
  readonly stop: (mode: StopMode) => Promise<void>
  readonly restart: (mode: StopMode) => Promise<void>
  /** Sends SIGKILL to all of the server's processes; `start` starts it again. */
  readonly kill9: () => Promise<void>
  /** Returns the connections of other clients, oldest first. */
  readonly backends: () => Promise<ReadonlyArray<Backend>>
  /** Cancels the backend's query, but not its connection; false if it is already gone. */
  readonly cancel: (pid: number) => Promise<boolean>
  /** Ends the backend's connection; false if it is already gone. */
  readonly terminate: (pid: number) => Promise<boolean>
  /** Freezes the backend: its connection stays open but is silent. */
  readonly pause: (pid: number) => void
  readonly resume: (pid: number) => void
  /** Returns the server's log since the first start. */
  readonly log: () => string
  /** Stops the server and removes the directory. This also happens when this process dies, however that happens. */
  readonly dispose: () => Promise<void>
}
