import { dirname } from "node:path"

// What would be on the disk if the power went at any moment of a trace: a write counts once its file is synced, a name
// once its directory is.

/** The durable state at a point in time. */
export interface Disk {
  /** Everything written to this file, and its name and those of all directories above it below the data directory. */
  readonly isDurable: (path: string) => boolean
  /** Everything written to this file. */
  readonly isSynced: (path: string) => boolean
  /** This name, or one above it, was removed, and that is durable. */
  readonly isDurablyGone: (path: string) => boolean
  /** A page with this text was written to the log, and the log synced afterwards. */
  readonly hasLogged: (text: string) => boolean
}

export interface Watcher {
  /** The first bytes of an answer leave the process now. */
  readonly answer: (status: number, head: string, disk: Disk) => void
  /** A page is written to the log now: nothing of it is durable yet. */
  readonly page: (text: string, disk: Disk) => void
}

interface State {
  written: number
  synced: number
}

class ReplayedDisk implements Disk {
  readonly #top: string
  readonly #log: string
  readonly #states = new Map<string, State>()
  /** Of each name that was made or removed, the write of its directory that did. */
  readonly #made = new Map<string, number>()
  readonly #removed = new Map<string, number>()
  #pages: Array<{ readonly text: string; readonly write: number }> = []

  constructor(top: string, log: string) {
    this.#top = top
    this.#log = log
  }

  stateOf(path: string): State {
    const state = this.#states.get(path) ?? { written: 0, synced: 0 }
    this.#states.set(path, state)
    return state
  }

  write(path: string, text: string): void {
    const state = this.stateOf(path)
    state.written += 1
    if (path === this.#log) this.#pages.push({ text, write: state.written })
  }

  make(path: string): void {
    const directory = this.stateOf(dirname(path))
    directory.written += 1
    this.#made.set(path, directory.written)
    this.#removed.delete(path)
  }

  remove(path: string): void {
    const directory = this.stateOf(dirname(path))
    directory.written += 1
    this.#removed.set(path, directory.written)
    this.#made.delete(path)
  }

  rename(from: string, to: string): void {
    this.#states.set(to, this.stateOf(from))
    this.#states.delete(from)
    this.remove(from)
    this.make(to)
  }

  isSynced(path: string): boolean {
    const { synced, written } = this.stateOf(path)
    return synced >= written
  }

  isDurable(path: string): boolean {
    if (!this.isSynced(path) || !this.#made.has(path)) return false
    for (let name = path; name.length > this.#top.length; name = dirname(name))
      if ((this.#made.get(name) ?? 0) > this.stateOf(dirname(name)).synced) return false
    return true
  }

  isDurablyGone(path: string): boolean {
    for (let name = path; name.length > this.#top.length; name = dirname(name)) {
      const removed = this.#removed.get(name)
      if (removed !== undefined && removed <= this.stateOf(dirname(name)).synced) return true
    }
    return false
  }

  hasLogged(text: string): boolean {
    const { synced } = this.stateOf(this.#log)
    return this.#pages.some((page) => page.write <= synced && page.text.includes(text))
  }
}

const line = /^(\d+)\s+(?:(\w+)\((.*)|<\.\.\. \w+ resumed>(.*))$/
const descriptor = /^\d+<([^>]*)>/
const quoted = /"([^"]*)"/g

interface Open {
  readonly name: string
  readonly path: string
  readonly text: string
  /** For a sync: how far the file was written when it began. */
  readonly upTo: number
}

/** Plays a trace made with `-f -y`: what a call writes counts from its beginning, what it secures from its return. */
export const replayDisk = (trace: string, directory: string, watcher: Watcher): void => {
  const disk = new ReplayedDisk(directory, `${directory}/kiln.db-wal`)
  const open = new Map<string, Open>()
  const begin = (name: string, text: string): Open => {
    const path = descriptor.exec(text)?.[1] ?? ""
    const status = /"HTTP\/1\.1 (\d{3})/.exec(text)?.[1]
    if (status !== undefined) watcher.answer(Number(status), text, disk)
    if (path.startsWith(directory) && /^p?write(64|v2?)?$/.test(name)) {
      if (path.endsWith("-wal")) watcher.page(text, disk)
      disk.write(path, text)
    }
    return { name, path, text, upTo: disk.stateOf(path).written }
  }
  for (const row of trace.split("\n")) {
    const [, thread = "", name, text = "", resumed] = line.exec(row) ?? []
    const call = name === undefined ? open.get(thread) : begin(name, text)
    open.delete(thread)
    if (call === undefined) continue
    if (name !== undefined && text.endsWith("<unfinished ...>")) open.set(thread, call)
    else if (/= 0\b/.test(/\)\s+= .*$/.exec(resumed ?? text)?.[0] ?? "")) finish(disk, call)
  }
}

const finish = (disk: ReplayedDisk, { name, path, text, upTo }: Open): void => {
  const names = [...text.matchAll(quoted)].map((match) => match[1] ?? "")
  const [first = "", second = ""] = names
  if (name === "fsync" || name === "fdatasync") disk.stateOf(path).synced = Math.max(disk.stateOf(path).synced, upTo)
  else if (name.startsWith("rename")) disk.rename(first, second)
  else if (name.startsWith("mkdir")) disk.make(first)
  else if (name.startsWith("unlink") || name === "rmdir") disk.remove(first)
}
