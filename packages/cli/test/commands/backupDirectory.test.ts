import { createHash } from "node:crypto"
import {
  cpSync,
  globSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { join } from "node:path"
import { temporaryDirectory } from "@kiln/service-lab"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { engineOn, speak } from "../support/liveFiles.ts"
import { jsonOf, refusalOf } from "../support/runInProcess.ts"

const marker = "kiln-backup.json"

/** Every file below a directory and the SHA-256 of its content. Logs of databases change when they are read. */
const contentsOf = (directory: string): Readonly<Record<string, string>> =>
  Object.fromEntries(
    globSync("**/*", { cwd: directory })
      .filter((name) => !/-(wal|shm)$/.test(name) && statSync(join(directory, name)).isFile())
      .toSorted()
      .map((name) => [
        name,
        createHash("sha256")
          .update(readFileSync(join(directory, name)))
          .digest("hex"),
      ]),
  )

/** Makes an installation with two finished jobs, as a server leaves it. */
const install = async (directory: string): Promise<void> => {
  const engine = await engineOn(directory)
  for (const text of ["one", "two"]) await speak(engine, text)
  await engine.stop()
  await jsonOf(["blobs", "sweep"], { KILN_DATA_DIR: directory })
}

// Installations are read and copied only, so all cases share them.
const shared = temporaryDirectory()
const own = join(shared.path, "own")
const other = join(shared.path, "other")
const env = { KILN_DATA_DIR: own }
beforeAll(async () => {
  for (const directory of [own, other]) await install(directory)
})
afterAll(() => shared[Symbol.dispose]())

/** The directory as a version of kiln that set no marker leaves it. */
const withoutMarker = async (directory: string): Promise<void> => {
  await jsonOf(["backup", directory], env)
  rmSync(join(directory, marker))
}

describe("kiln backup DIR", () => {
  const refused: ReadonlyArray<
    readonly [name: string, dir: string, reason: string, prepare?: (directory: string) => void | Promise<void>]
  > = [
    ["the data directory itself", own, "a directory of the installation itself"],
    ["a directory inside the data directory", join(own, "backups"), "is inside"],
    ["a directory of the data directory's files", join(own, "blobs"), "is inside"],
    ["the directory around the data directory", shared.path, "it contains"],
    ["another installation", other, "belongs to an installation, because it has kiln.db"],
    ["a directory inside another installation", join(other, "a/b"), "which belongs to an installation"],
    [
      "files of another installation",
      join(shared.path, "files"),
      "belongs to an installation, because it has blobs/installation",
      (directory) => cpSync(join(other, "blobs"), join(directory, "blobs"), { recursive: true }),
    ],
    [
      "files of an embedded engine",
      join(shared.path, "embedded"),
      "it contains blobs/voices",
      (directory) => mkdirSync(join(directory, "blobs/voices"), { recursive: true }),
    ],
    [
      "files of an engine that was never started twice",
      join(shared.path, "young"),
      "that none of its backups names",
      (directory) => cpSync(join(other, "blobs/jobs"), join(directory, "blobs/jobs"), { recursive: true }),
    ],
    [
      "a directory of someone's files",
      join(shared.path, "pictures"),
      "it is neither empty nor a backup directory (it contains cat.jpg and dog.jpg)",
      (directory) => {
        mkdirSync(directory)
        for (const name of ["cat.jpg", "dog.jpg"]) writeFileSync(join(directory, name), name)
      },
    ],
    [
      "backups, in which an installation lies",
      join(shared.path, "around"),
      "it contains nested, which belongs to an installation",
      async (directory) => {
        await jsonOf(["backup", directory], env)
        cpSync(other, join(directory, "nested"), { recursive: true })
      },
    ],
    [
      "backups, in whose place an installation was started",
      join(shared.path, "reused"),
      "belongs to an installation, because it has kiln.db",
      async (directory) => {
        await jsonOf(["backup", directory], env)
        cpSync(other, directory, { recursive: true })
      },
    ],
    [
      "backups of a version without a marker, with files that none of them names",
      join(shared.path, "mixed"),
      "none of its backups names",
      async (directory) => {
        await withoutMarker(directory)
        cpSync(join(other, "blobs/jobs"), join(directory, "blobs/jobs"), { recursive: true })
      },
    ],
    [
      "backups of a version without a marker, beside something else",
      join(shared.path, "beside"),
      "(it contains notes.txt)",
      async (directory) => {
        await withoutMarker(directory)
        writeFileSync(join(directory, "notes.txt"), "keep")
      },
    ],
    [
      "a link into the data directory",
      join(shared.path, "link"),
      "is inside",
      (directory) => symlinkSync(join(own, "tmp"), directory),
    ],
    ["a file", join(shared.path, "file"), "it is not a directory", (path) => writeFileSync(path, "")],
  ]

  const cases = refused.map(([name, directory, reason, prepare = () => undefined]) => ({
    name,
    directory,
    reason,
    prepare,
  }))

  it.each(cases)(
    "refuses $name, with the reason, and changes nothing there",
    async ({ directory, prepare, reason }) => {
      await prepare(directory)
      const before = contentsOf(shared.path)
      const message = await refusalOf(["backup", directory, "--keep", "1"], env, 1)
      expect(message).toContain(`cannot back up into ${directory}: `)
      expect(message).toContain(reason)
      expect(contentsOf(shared.path)).toEqual(before)
    },
  )

  it("refuses the directory of the files, if they are not in the data directory", async () => {
    const files = join(shared.path, "elsewhere")
    const apart = { ...env, KILN_BLOBS: `file:${files}` }
    for (const directory of [files, join(files, "blobs/jobs")])
      expect(await refusalOf(["backup", directory], apart, 1)).toContain("of the installation itself")
  })

  it("goes on in a directory of backups that a version without a marker made, and marks it", async () => {
    using target = temporaryDirectory()
    const directory = join(target.path, "backups")
    await withoutMarker(directory)
    // As a file store that knows its directory again leaves it.
    writeFileSync(join(directory, "blobs/.store"), "identity")
    expect(await jsonOf(["restore", directory, "--check"], {})).toMatchObject({ ok: true })
    expect(await jsonOf(["backup", directory], env)).toMatchObject({ copied_files: 0 })
    expect(JSON.parse(readFileSync(join(directory, marker), "utf8"))).toEqual({ contents: "kiln backups", format: 1 })
    // The marker moves along with the directory.
    renameSync(directory, join(target.path, "moved"))
    writeFileSync(join(target.path, "moved/notes.txt"), "keep")
    expect(await jsonOf(["backup", join(target.path, "moved"), "--keep", "1"], env)).toMatchObject({
      copied_files: 0,
      removed_backups: [expect.any(String), expect.any(String)],
    })
    expect(readFileSync(join(target.path, "moved/notes.txt"), "utf8")).toBe("keep")
  })

  it.each([
    ["with", (_: string) => Promise.resolve()],
    ["without", (directory: string) => Promise.resolve(rmSync(join(directory, marker)))],
  ])("never becomes the blob store of an installation, %s a marker", async (_name, leave) => {
    using target = temporaryDirectory()
    const directory = join(target.path, "backups")
    await jsonOf(["backup", directory], env)
    await leave(directory)
    const before = contentsOf(directory)
    const place = `file:${directory}`
    for (const refusal of [
      await refusalOf(["blobs", "claim"], { ...env, KILN_BLOBS: place }, 1),
      await refusalOf(["blobs", "copy", "--from", "file:", "--to", place], env, 1),
    ])
      expect(refusal).toContain(`${directory} holds backups, not the files of an installation`)
    expect(contentsOf(directory)).toEqual(before)
  })

  it("does not begin again where the last backup was, as on a disk that is not mounted", async () => {
    using target = temporaryDirectory()
    const directory = join(target.path, "backups")
    await jsonOf(["backup", directory], env)
    rmSync(directory, { recursive: true })
    expect(await refusalOf(["backup", directory], env, 1)).toContain("check that its disk is mounted")
    expect(globSync("*", { cwd: target.path })).toEqual([])
    expect(await jsonOf(["backup", directory, "--start-over"], env)).toMatchObject({ copied_files: 2 })
  })
})

describe("kiln restore DIR --to", () => {
  it("removes only what an interrupted restore left there", async () => {
    using target = temporaryDirectory()
    const directory = join(target.path, "backups")
    await jsonOf(["backup", directory], env)
    const to = join(target.path, "restored")
    const interrupted = async () => {
      rmSync(to, { recursive: true, force: true })
      await jsonOf(["restore", directory, "--to", to], {})
      renameSync(join(to, "kiln.db"), join(to, "kiln.db.restoring"))
    }
    const uses: ReadonlyArray<readonly [use: () => void, reason: string]> = [
      [() => writeFileSync(join(to, "letters.txt"), "mine"), "it contains letters.txt"],
      [() => cpSync(join(own, "kiln.db"), join(to, "kiln.db")), "it contains kiln.db"],
      [() => cpSync(join(own, "blobs/lineage"), join(to, "blobs/lineage"), { recursive: true }), "has used it since"],
      [
        () => cpSync(join(other, "blobs/installation"), join(to, "blobs/installation"), { recursive: true }),
        "the files of another installation",
      ],
    ]
    for (const [use, reason] of uses) {
      await interrupted()
      use()
      const before = contentsOf(to)
      expect(await refusalOf(["restore", directory, "--to", to], {}, 1)).toContain(reason)
      expect(contentsOf(to)).toEqual(before)
    }
    await interrupted()
    expect(await jsonOf(["restore", directory, "--to", to], {})).toMatchObject({ files: 2 })
    expect(await refusalOf(["restore", directory, "--to", join(directory, "blobs/x")], {}, 1)).toContain(
      "is inside the backup",
    )
  })
})
