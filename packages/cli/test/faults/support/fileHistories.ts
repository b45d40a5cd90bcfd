import { createHash } from "node:crypto"
import { execFileSync } from "node:child_process"
import { cpSync, existsSync, globSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileBlobs } from "@kiln/adapter-blobs"
import { sqliteStore } from "@kiln/adapter-sqlite"
import { builtInKinds, createEngine } from "@kiln/core"
import { audioProbe } from "@kiln/media-probe"
import { sandboxProviders } from "@kiln/provider-sandbox"
import { temporaryDirectory } from "@kiln/service-lab"
import { randomFrom } from "../../crash/support/random.ts"
import { engineOn, speak } from "../../support/liveFiles.ts"
import { runInProcess } from "../../support/runInProcess.ts"
import { fill } from "./Mount.ts"
import { brokenPromises, readRecords } from "./Records.ts"

// A history of an installation: backups, restores, sweeps, copies to other blob stores, full disks, disks that are not mounted, and
// directories that an operator mistypes, in random order. After each step, every file that a row names is there.

/** What happened in histories. */
export interface Histories {
  readonly histories: number
  readonly steps: number
  /** Successful and refused runs of each kind of step. */
  readonly done: Readonly<Record<string, number>>
  readonly refused: Readonly<Record<string, number>>
  /** Checks of files that a row or a backup names. */
  readonly filesChecked: number
  readonly violations: ReadonlyArray<string>
}

const mount = (path: string, megabytes: number): void => {
  mkdirSync(path, { recursive: true })
  execFileSync("mount", ["-t", "tmpfs", "-o", `size=${megabytes}m,mode=700`, "kiln-faults", path])
}
const unmount = (path: string): void => void execFileSync("umount", ["-l", path])

const contentsOf = (directory: string): string =>
  globSync("**/*", { cwd: directory })
    .filter((name) => !/-(wal|shm)$/.test(name) && statSync(join(directory, name)).isFile())
    .toSorted()
    .map(
      (name) =>
        `${name} ${createHash("sha256")
          .update(readFileSync(join(directory, name)))
          .digest("hex")}`,
    )
    .join("\n")

/** An installation with two finished jobs, made once and copied for each history: a neighbor whose directory is mistyped. */
const makeNeighbor = async (directory: string): Promise<void> => {
  const engine = await engineOn(directory)
  for (const text of ["one", "two"]) await speak(engine, text)
  await engine.stop()
  await runInProcess(["blobs", "sweep"], { KILN_DATA_DIR: directory })
}

const stepsOf = 14

class History implements Disposable {
  readonly done: Record<string, number> = {}
  readonly refused: Record<string, number> = {}
  readonly violations: Array<string> = []
  filesChecked = 0
  readonly #scratch = temporaryDirectory()
  readonly #root = this.#scratch.path
  readonly #random
  readonly #before: string
  #data = join(this.#root, "data")
  /** The directory of the files; that of the data until they are moved. */
  #files = this.#data
  #restores = 0
  /** The disk for files is full, or not mounted, and this ends it. */
  #trouble: { readonly what: string; readonly end: () => void } | undefined

  constructor(seed: number, neighbor: string) {
    this.#random = randomFrom(seed)
    for (const [name, megabytes] of [
      ["disk", 4],
      ["backups", 24],
    ] as const)
      mount(join(this.#root, name), megabytes)
    cpSync(neighbor, join(this.#root, "neighbor"), { recursive: true })
    mkdirSync(join(this.#root, "pictures"))
    writeFileSync(join(this.#root, "pictures/cat.jpg"), "meow")
    this.#before = this.#bystanders()
  }

  [Symbol.dispose](): void {
    this.#trouble?.end()
    for (const name of ["disk", "backups"]) unmount(join(this.#root, name))
    this.#scratch[Symbol.dispose]()
  }

  #bystanders(): string {
    return ["neighbor", "pictures"].map((name) => contentsOf(join(this.#root, name))).join("\n")
  }

  #pick<A>(choices: ReadonlyArray<A>): A {
    return choices[Math.floor(this.#random() * choices.length)] as A
  }

  get #env(): Readonly<Record<string, string>> {
    return { KILN_DATA_DIR: this.#data, ...(this.#files !== this.#data && { KILN_BLOBS: `file:${this.#files}` }) }
  }

  async #run(kind: string, args: ReadonlyArray<string>, env = this.#env): Promise<boolean> {
    const { exit, stderr } = await runInProcess(args, env)
    const counts = exit === 0 ? this.done : this.refused
    counts[kind] = (counts[kind] ?? 0) + 1
    if (stderr.includes("unexpected error")) this.violations.push(`${args.join(" ")}: ${stderr}`)
    return exit === 0
  }

  /** Opens an engine, if a server would start. */
  async #serve(use: (engine: Awaited<ReturnType<typeof engineOn>>) => Promise<void>): Promise<void> {
    if (existsSync(join(this.#data, "kiln.db")) && !(await this.#run("start", ["blobs", "sweep", "--dry-run"]))) return
    const engine = await createEngine({
      store: sqliteStore({ path: join(this.#data, "kiln.db") }),
      blobs: fileBlobs({ directory: this.#files }),
      kinds: builtInKinds(),
      probe: audioProbe(),
      providers: { sandbox: sandboxProviders({ steering: true }), live: sandboxProviders({ steering: false }) },
      log: false,
    })
    try {
      await use(engine)
    } finally {
      await engine.stop({ drainMs: 100 })
    }
  }

  /** Runs jobs. While the disk is full, they are only accepted. */
  #work(): Promise<void> {
    return this.#serve(async (engine) => {
      const count = 1 + Math.floor(this.#random() * 3)
      for (let n = 0; n < count; n++)
        if (this.#trouble === undefined) await speak(engine, `text ${this.#random()}`)
        else {
          await engine.submit("speech_synthesis", { input: `text ${this.#random()}` })
          await new Promise((resolve) => setTimeout(resolve, 20))
        }
    })
  }

  #erase(): Promise<void> {
    const jobs = readRecords(this.#data)?.jobs.filter(({ status }) => status === "done") ?? []
    if (jobs.length === 0) return Promise.resolve()
    const { id } = this.#pick(jobs)
    return this.#serve(async (engine) => {
      await engine.eraseData(id).catch(() => undefined)
    })
  }

  async #backUp(): Promise<void> {
    const directory = join(this.#root, this.#pick(["backups/one", "backups/one", "backups/two"]))
    await this.#run("backup", ["backup", directory, "--keep", String(this.#pick([1, 2, 3]))])
  }

  /** A directory that is not one of backups. */
  async #mistypeBackup(): Promise<void> {
    const { neighbor, pictures, root } = {
      neighbor: join(this.#root, "neighbor"),
      pictures: join(this.#root, "pictures"),
      root: this.#root,
    }
    const wrong = [
      this.#data,
      this.#files,
      join(this.#data, "blobs"),
      join(this.#files, "blobs/jobs"),
      join(this.#data, "backups"),
      neighbor,
      join(neighbor, "blobs"),
      pictures,
      root,
      join(this.#root, "restored-1"),
    ]
    const directory = this.#pick(wrong)
    if (await this.#run("mistyped backup", ["backup", directory, "--keep", "1"]))
      if (directory !== join(this.#root, "restored-1")) this.violations.push(`backed up into ${directory}`)
  }

  async #restore(): Promise<void> {
    const from = join(this.#root, this.#pick(["backups/one", "backups/two"]))
    const names = existsSync(join(from, "generations")) ? readdirSync(join(from, "generations")) : []
    if (names.length === 0) return
    const to = join(this.#root, `restored-${++this.#restores}`)
    const which = this.#random() < 0.5 ? [] : ["--backup", this.#pick(names)]
    if (this.#random() < 0.2)
      return void (await this.#run("mistyped restore", [
        "restore",
        from,
        "--to",
        this.#pick([this.#data, this.#files, join(this.#root, "neighbor"), join(this.#root, "pictures"), from]),
      ]))
    if (!(await this.#run("restore", ["restore", from, "--to", to, ...which]))) return
    if (!(await this.#run("adopt", ["adopt", "--restored", "--force"], { KILN_DATA_DIR: to }))) return
    // The original is never used again.
    this.#data = to
    this.#files = to
  }

  async #move(): Promise<void> {
    const to = this.#pick([
      this.#data,
      join(this.#root, "disk/files"),
      join(this.#root, "shared"),
      join(this.#root, "neighbor"),
    ])
    // Nothing tells an empty mount point from a new directory.
    if (to.startsWith(join(this.#root, "disk")) && this.#trouble?.what === "unmounted") return
    const flags = ["blobs", "copy", "--from", `file:${this.#files}`, "--to", `file:${to}`]
    if (!(await this.#run("copy", flags))) return
    // Jobs go on for a while, and then everything is stopped and copied again.
    if (this.#random() < 0.7) await this.#work()
    if (await this.#run("copy", flags)) this.#files = to
  }

  async #mistypeFiles(): Promise<void> {
    const wrong = [join(this.#root, "backups/one"), join(this.#root, "neighbor"), join(this.#root, "empty")]
    const env = { KILN_DATA_DIR: this.#data, KILN_BLOBS: `file:${this.#pick(wrong)}` }
    await this.#run(
      "mistyped blobs",
      this.#pick([
        ["blobs", "sweep", "--force"],
        ["retention", "run"],
      ]),
      env,
    )
  }

  #makeTrouble(): void {
    if (this.#trouble !== undefined) return
    const disk = join(this.#root, this.#pick(["disk", "backups"]))
    if (this.#random() < 0.5) return void (this.#trouble = { what: "full", end: fill(disk) })
    // Another file system hides it, as an empty mount point does.
    mount(disk, 4)
    const hidden = { what: "unmounted", end: () => unmount(disk) }
    this.#trouble = hidden
  }

  #endTrouble(): void {
    this.#trouble?.end()
    this.#trouble = undefined
  }

  /** Compares every row, and every backup, with the files. */
  #check(step: string): void {
    const records = readRecords(this.#data)
    if (records === undefined) return
    const broken = brokenPromises(this.#files, records.blobs)
    this.filesChecked += records.blobs.length
    for (const promise of [...records.integrity, ...broken]) this.violations.push(`after ${step}: ${promise}`)
    for (const manifest of globSync("backups/*/generations/*/manifest.json", { cwd: this.#root })) {
      if (manifest.includes(".partial")) continue
      const generation = join(this.#root, manifest, "..")
      const kept = readRecords(generation)?.blobs ?? []
      this.filesChecked += kept.length
      for (const promise of brokenPromises(join(generation, "../.."), kept))
        this.violations.push(`after ${step}: ${manifest}: ${promise}`)
    }
    if (this.#bystanders() !== this.#before) this.violations.push(`after ${step}: a bystander's files changed`)
  }

  async play(): Promise<void> {
    const steps = {
      work: () => this.#work(),
      erase: () => this.#erase(),
      backup: () => this.#backUp(),
      "mistyped backup": () => this.#mistypeBackup(),
      restore: () => this.#restore(),
      sweep: () => this.#run("sweep", ["blobs", "sweep", ...(this.#random() < 0.5 ? ["--force"] : [])]),
      move: () => this.#move(),
      "mistyped blobs": () => this.#mistypeFiles(),
      trouble: () => Promise.resolve(this.#makeTrouble()),
    }
    const all = Object.keys(steps) as ReadonlyArray<keyof typeof steps>
    const frequent = [...all, "backup", "backup", "restore", "restore"] as const
    await this.#work()
    // As the first server does, this marks the files.
    await this.#run("start", ["blobs", "sweep"])
    for (let n = 0; n < stepsOf && this.violations.length === 0; n++) {
      const step = this.#pick(frequent)
      await steps[step]()
      if (step === "trouble") continue
      const during = this.#trouble === undefined ? "" : ` with a disk ${this.#trouble.what}`
      // A disk in trouble stays so for a few steps.
      if (this.#trouble !== undefined && this.#random() < 0.6) continue
      this.#endTrouble()
      this.#check(`step ${n}, ${step}${during}`)
    }
    this.#endTrouble()
    this.#check("the end")
  }
}

const add = (into: Record<string, number>, counts: Readonly<Record<string, number>>): void => {
  for (const [name, count] of Object.entries(counts)) into[name] = (into[name] ?? 0) + count
}

/** Plays histories with these seeds. */
export const playFileHistories = async (seeds: ReadonlyArray<number>): Promise<Histories> => {
  using neighbor = temporaryDirectory()
  await makeNeighbor(neighbor.path)
  const done: Record<string, number> = {}
  const refused: Record<string, number> = {}
  const violations: Array<string> = []
  let filesChecked = 0
  const left = [...seeds]
  // They mostly wait for jobs.
  const next = async (): Promise<void> => {
    for (let seed = left.shift(); seed !== undefined; seed = left.shift()) {
      using history = new History(seed, neighbor.path)
      await history.play()
      add(done, history.done)
      add(refused, history.refused)
      filesChecked += history.filesChecked
      violations.push(...history.violations.map((violation) => `seed ${seed}: ${violation}`))
    }
  }
  await Promise.all(Array.from({ length: 4 }, next))
  return { histories: seeds.length, steps: seeds.length * stepsOf, done, refused, filesChecked, violations }
}
