import { type Edit, planting } from "../../../../../tests/planted/Edit.ts"

/** A bug in keeping promises on disk, planted by changing the text of modules as a process loads them. */
export interface PlantedBug {
  readonly bug: string
  readonly edits: ReadonlyArray<Edit>
  /** The finding of `durableOrder`. */
  readonly noticed: RegExp
}

/** One that also shows when the process is killed. */
interface FatalBug extends PlantedBug {
  /** The finding of `killSweep`. */
  readonly inWreck: RegExp
}

/** The environment of a process that has it. */
export const planted = ({ edits }: Pick<PlantedBug, "edits">): Readonly<Record<string, string>> => planting(edits)

const inDatabase = (from: string, to: string): Edit => ({ file: "adapter-sqlite/src/Database.ts", from, to })

/** The statements of many steps are committed together, a moment later (long enough that nearly every kill meets it), and the callers are answered before. */
export const answersBeforeCommit: FatalBug = {
  bug: "answers before the commit",
  edits: [
    inDatabase(
      "this.#statements.get(begin).run([])",
      'if (!this.connection.inTransaction) this.#statements.get("BEGIN IMMEDIATE").run([])',
    ),
    inDatabase(
      'this.#statements.get("COMMIT").run([])',
      `if (!this.committing) {
        this.committing = true
        setTimeout(() => {
          this.committing = false
          if (this.connection.open && this.connection.inTransaction) this.#statements.get("COMMIT").run([])
        }, 300)
      }`,
    ),
    inDatabase("  #waiting = 0", "  #waiting = 0\n  committing = false"),
    {
      file: "adapter-sqlite/src/openDatabase.ts",
      from: "(opened) => Effect.sync(() => opened.close())",
      to: '(opened) => Effect.sync(() => (opened.inTransaction ? opened.exec("COMMIT") : opened).close())',
    },
  ],
  noticed: /202 before job_\w+ was durable/,
  inWreck: /job_\w+ was accepted and is lost/,
}

/** The row is written first, and the blob when there is time. */
export const rowBeforeBlob: FatalBug = {
  bug: "the row before the blob",
  edits: [
    {
      file: "adapter-blobs/src/file/put.ts",
      from: "yield* moveIntoPlace(directory, draft)",
      to: "yield* Effect.forkDetach(Effect.andThen(Effect.sleep(30), moveIntoPlace(directory, draft).pipe(Effect.orDie)))",
    },
  ],
  noticed: /a row names jobs\/\S+ before it was durable/,
  inWreck: /names \S+, which is missing/,
}

/** Bugs that a kill does not show, for the system keeps what a process wrote: only a power failure would. */
export const unsynced: ReadonlyArray<PlantedBug> = [
  {
    bug: "the log is not synced",
    edits: [{ file: "adapter-sqlite/src/openDatabase.ts", from: "synchronous = FULL", to: "synchronous = NORMAL" }],
    noticed: /202 before job_\w+ was durable/,
  },
  {
    bug: "a blob is not synced",
    edits: [{ file: "adapter-blobs/src/file/put.ts", from: "  await handle.sync()\n", to: "" }],
    noticed: /204 before uploads\/\S+ was durable/,
  },
  {
    bug: "the name of a blob is not synced",
    edits: [
      {
        file: "adapter-blobs/src/file/system.ts",
        from: "for (let path = dirname(to); ; path = dirname(path)) {",
        to: "for (let path = top; ; path = dirname(path)) {",
      },
    ],
    noticed: /a row names jobs\/\S+ before it was durable/,
  },
  {
    bug: "a removal is not synced",
    edits: [
      {
        file: "adapter-blobs/src/file/remove.ts",
        from: "await removeEmptyDirectories(dirname(file), directory.blobs)",
        to: "",
      },
    ],
    noticed: /204 before jobs\/\S+ was gone/,
  },
]
