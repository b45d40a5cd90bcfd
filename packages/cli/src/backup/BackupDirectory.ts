import { createHash } from "node:crypto"
import { createReadStream, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from "node:fs"
import { open } from "node:fs/promises"
import { join } from "node:path"
import { pipeline } from "node:stream/promises"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { makeDirectory } from "@kiln/adapter-sqlite"
import { DiskProblem } from "@kiln/core/domain"
import { causeMessage, codesOf, type CommandFailed, failed } from "../CommandFailed.ts"
import { generationsOf, isGenerationName } from "./backupMarker.ts"

// A backup directory:
//
//   kiln-backup.json              marks it; only a directory with it is ever pruned (claimDirectory.ts)
//   blobs/                          files of all generations, as in a data directory
//   generations/20261123T064500000Z/   one backup, complete because it has this name
//     manifest.json                 written last, with the checksums of the other two
//     kiln.db                       the database
//     blobs.txt                     the files that the database names: key, bytes, SHA-256
//   generations/*.partial/          a backup in progress, or one that was killed

/** The manifest of a generation, with the checksums of its parts. */
const Manifest = Schema.Struct({
  format: Schema.Literal(1),
  /** Version of kiln that made it. */
  kiln: Schema.String,
  /** Empty if only embedded engines have used the database. */
  installation_id: Schema.String,
  /** SHA-256 of a secret of the installation, which tells whose backup this is; empty before the first job. */
  origin: Schema.String,
  created_at: Schema.String,
  database: Schema.Struct({
    bytes: Schema.Number,
    sha256: Schema.String,
    /** The newest entry in the blob store that the database knows. */
    generation: Schema.Number,
    migrations: Schema.Array(Schema.String),
    counts: Schema.Record(Schema.String, Schema.Number),
  }),
  blobs: Schema.Struct({
    count: Schema.Number,
    bytes: Schema.Number,
    list_sha256: Schema.String,
    /** Files that were missing or damaged in the installation itself. */
    unusable: Schema.Array(Schema.String),
  }),
})
export type Manifest = typeof Manifest.Type

/** One complete backup. */
export interface Generation {
  readonly name: string
  readonly path: string
  readonly manifest: Manifest
}

export const databaseFile = "kiln.db"
export const blobListFile = "blobs.txt"
const manifestFile = "manifest.json"
const partial = ".partial"

/** Matches the names of a generation's files, including those that SQLite keeps beside an open database. */
export const partFiles: RegExp = /^(kiln\.db(-wal|-shm|-journal)?|blobs\.txt|manifest\.json)$/

/** Returns whether a backup gave this name to a generation that is not complete. */
export const isPartialName = (name: string): boolean =>
  name.endsWith(partial) && isGenerationName(name.slice(0, -partial.length))

/** Runs file system calls; their errors name the backup. */
export const onFiles = <A>(directory: string, run: () => A | Promise<A>): Effect.Effect<A, CommandFailed> =>
  Effect.tryPromise({
    try: async () => run(),
    catch: (cause) =>
      isFull(cause)
        ? directoryUnusable(directory, cause)
        : failed(`cannot use the backup ${directory}: ${causeMessage(cause)}`),
  })

const fullCodes: ReadonlySet<string> = new Set(["ENOSPC", "EDQUOT", "SQLITE_FULL"])

const isFull = (cause: unknown): boolean =>
  (cause instanceof DiskProblem && cause.isFull) || codesOf(cause).some((code) => fullCodes.has(code))

/** The error of a directory that cannot be used. A full disk has its own remedy, which is not that of the installation. */
export const directoryUnusable = (directory: string, cause: unknown): CommandFailed =>
  failed(
    isFull(cause)
      ? `the disk of ${directory} is full: free space there, or choose another directory, and run the command again`
      : `cannot use the directory ${directory}: ${causeMessage(cause)}`,
  )

/** Attributes a full disk to the only directory that is written to. */
export const explainFullDisk =
  (directory: string) =>
  <A, E extends { readonly _tag: string; readonly cause?: unknown }, R>(
    writing: Effect.Effect<A, E, R>,
  ): Effect.Effect<A, E | CommandFailed, R> =>
    Effect.mapError(writing, (error) => (isFull(error.cause) ? directoryUnusable(directory, error.cause) : error))

const decodeManifest = Schema.decodeUnknownSync(Schema.fromJsonString(Manifest))

const readGeneration = (directory: string, name: string): Generation => {
  const path = join(generationsOf(directory), name)
  try {
    return { name, path, manifest: decodeManifest(readFileSync(join(path, manifestFile), "utf8")) }
  } catch (cause) {
    throw new Error(
      `the manifest of ${name} cannot be read: ${causeMessage(cause)}. To use the other backups, move this one away`,
      { cause },
    )
  }
}

/** Only a missing directory has no names: one that this user may not read can contain any. */
const namesIn = (directory: string): ReadonlyArray<string> => {
  try {
    return readdirSync(generationsOf(directory)).toSorted()
  } catch (cause) {
    if (codesOf(cause).includes("ENOENT")) return []
    throw cause
  }
}

/** Lists the complete generations, oldest first: their names are their times. Fails if a manifest is damaged. */
export const listGenerations = (directory: string): Effect.Effect<ReadonlyArray<Generation>, CommandFailed> =>
  onFiles(directory, () =>
    namesIn(directory)
      .filter((name) => !name.endsWith(partial))
      .map((name) => readGeneration(directory, name)),
  )

/** Returns a generation by its name, or the newest. */
export const findGeneration = Effect.fnUntraced(function* (directory: string, name: string | undefined) {
  const all = yield* listGenerations(directory)
  const found = name === undefined ? all.at(-1) : all.find((generation) => generation.name === name)
  if (found !== undefined) return { found, newest: all.at(-1) ?? found }
  const names = all.map((generation) => generation.name).join(", ")
  return yield* failed(
    name === undefined
      ? `${directory} contains no complete backup`
      : `${directory} contains no backup named ${name}; it has ${names === "" ? "none" : names}`,
  )
})

/** Creates the directory of a new generation, and removes what killed backups left. */
export const beginGeneration = (directory: string, now: number): Effect.Effect<string, CommandFailed> =>
  onFiles(directory, () => {
    const root = generationsOf(directory)
    makeDirectory(root)
    for (const name of namesIn(directory)) if (isPartialName(name)) rmSync(join(root, name), { recursive: true })
    const name = new Date(now).toISOString().replaceAll(/[-:.]/g, "")
    const path = join(root, `${name}${partial}`)
    if (existsSync(join(root, name))) throw new Error(`${name} exists already`)
    mkdirSync(path, { mode: 0o700 })
    return path
  })

/** Writes a private file durably. By default, it must be a new one. */
export const writeDurably = async (path: string, text: string, flag: "w" | "wx" = "wx"): Promise<void> => {
  const file = await open(path, flag, 0o600)
  try {
    await file.writeFile(text)
    await file.sync()
  } finally {
    await file.close()
  }
}

export const syncDirectory = async (path: string): Promise<void> => {
  const handle = await open(path, "r")
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** Writes the manifest and completes a generation by giving it its name. Returns the name. */
export const completeGeneration = (directory: string, path: string, manifest: Manifest) =>
  onFiles(directory, async () => {
    await writeDurably(join(path, manifestFile), `${JSON.stringify(manifest, null, 2)}\n`)
    await syncDirectory(path)
    const final = path.slice(0, -partial.length)
    renameSync(path, final)
    await syncDirectory(generationsOf(directory))
    return final
  })

/** Removes a generation. Under the name of an incomplete one first, so that it is never taken for a complete one. */
export const removeGeneration = (directory: string, { path }: Generation): Effect.Effect<void, CommandFailed> =>
  onFiles(directory, async () => {
    renameSync(path, `${path}${partial}`)
    await syncDirectory(generationsOf(directory))
    rmSync(`${path}${partial}`, { recursive: true })
  })

/** A file as `blobs.txt` names it. */
export interface ListedBlob {
  readonly blobKey: string
  readonly bytes: number
  readonly sha256: string
}

export const writeBlobList = (directory: string, path: string, blobs: ReadonlyArray<ListedBlob>) =>
  onFiles(directory, async () => {
    const text = blobs.map(({ blobKey, bytes, sha256 }) => `${blobKey} ${bytes} ${sha256}\n`).join("")
    await writeDurably(join(path, blobListFile), text)
    return createHash("sha256").update(text).digest("hex")
  })

/** Returns the keys of a generation's files. Fails if the list is damaged, so that nothing is removed for lack of an entry. */
export const readBlobKeys = (directory: string, { manifest, name, path }: Generation) =>
  onFiles(directory, () => {
    const text = readFileSync(join(path, blobListFile), "utf8")
    if (createHash("sha256").update(text).digest("hex") !== manifest.blobs.list_sha256)
      throw new Error(`the list of files of ${name} is damaged`)
    return text
      .split("\n")
      .slice(0, -1)
      .map((line) => line.slice(0, line.indexOf(" ")))
  })

/** Returns the SHA-256 of a file in lower-case hex. */
export const sha256Of = (directory: string, path: string): Effect.Effect<string, CommandFailed> =>
  onFiles(directory, async () => {
    const hash = createHash("sha256")
    await pipeline(createReadStream(path), hash)
    return hash.digest("hex")
  })
