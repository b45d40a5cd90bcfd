// Compares the probe with ffmpeg over files with errors, decoys and tricks in them: `pnpm audio:hostile --variants 1000`.
import { type ChildProcess, fork } from "node:child_process"
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { check, type Finding } from "./check.ts"
import { costFiles, measureCost } from "./costs.ts"
import {
  cacheDirectory,
  encodeMaterials,
  ffmpegVersion,
  type HostileFormat,
  hostileFormats,
  loadMaterials,
} from "./materials.ts"
import { makeVariant } from "./mutate.ts"
import { Oracle } from "./Oracle.ts"

const usage = `Usage: pnpm audio:hostile [options]

  --variants N         variants of each format (20000)
  --format NAME        one format alone: wav, mp3, mp4 or webm
  --seed N             the same seed makes the same variants (1)
  --only SEED-INDEX    one variant alone, as in the name of a failure; needs --format
  --costs              only measure the CPU time of large files
  --no-costs           skip them
  --help               this

Failing variants are written to a directory, each with a description.`

/** A batch for a child process. */
interface Range {
  readonly directory: string
  readonly format: HostileFormat
  readonly seed: number
  readonly from: number
  readonly to: number
}

/** A child reports the index that it begins with, then the finding. */
type Report = { readonly index: number } | { readonly finding: Finding } | { readonly isDone: true }

/** A child that makes no progress for this long hangs in the probe; ffmpeg has a shorter limit. */
const HANG_SECONDS = 45
const CHILDREN = 2
const BATCH = 50

/** Longest CPU time for one file, in milliseconds. */
const MAX_CPU_MS = 500

/** Longer gaps between turns of the event loop are reported, not counted as failures. */
const MAX_GAP_MS = 20

const readOptions = () => {
  const { values } = parseArgs({
    options: {
      variants: { type: "string", default: "20000" },
      format: { type: "string", default: "" },
      seed: { type: "string", default: "1" },
      only: { type: "string", default: "" },
      costs: { type: "boolean", default: false },
      "no-costs": { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  })
  const formats = hostileFormats.filter((format) => values.format === "" || format === values.format)
  const [seed = "", index] = values.only === "" ? [values.seed] : values.only.split("-")
  const numbers = {
    variants: Number(values.variants),
    seed: Number(seed),
    only: index === undefined ? -1 : Number(index),
  }
  if (formats.length === 0) throw new Error(`--format must be one of ${hostileFormats.join(", ")}`)
  if (values.only !== "" && formats.length > 1) throw new Error("--only needs --format")
  if (Object.values(numbers).some((number) => !Number.isInteger(number)))
    throw new Error("--variants, --seed and --only must be integers, such as 1000, 1 and 1-17")
  return { ...numbers, formats, help: values.help, onlyCosts: values.costs, hasCosts: !values["no-costs"] }
}

/** Serves batches until the parent disconnects. */
const serve = (): void => {
  const send = (report: Report): void => void process.send?.(report)
  let materials: ReturnType<typeof loadMaterials> | undefined
  let oracle: Oracle | undefined
  process.on("message", (range: Range) => {
    void (async () => {
      materials ??= loadMaterials(range.directory)
      oracle ??= new Oracle(range.directory)
      for (let index = range.from; index < range.to; index++) {
        send({ index })
        send({ finding: await check(materials, oracle, { format: range.format, seed: range.seed, index }) })
      }
      send({ isDone: true })
    })()
  })
  process.on("disconnect", () => process.exit())
}

/** Checks all variants of a format in child processes. A child that hangs is replaced, and continues behind the variant. */
const checkAll = async (whole: Range, see: (finding: Finding) => void): Promise<void> => {
  const batches: Array<Range> = []
  for (let from = whole.from; from < whole.to; from += BATCH)
    batches.unshift({ ...whole, from, to: Math.min(whole.to, from + BATCH) })
  const child = async (): Promise<void> => {
    let running: ChildProcess | undefined
    for (let batch = batches.pop(); batch !== undefined; batch = batches.pop()) {
      running ??= fork(import.meta.filename, ["--serve"], { execArgv: process.execArgv })
      const stuckAt = await checkBatch(running, batch, see)
      if (stuckAt === undefined) continue
      running.kill("SIGKILL")
      running = undefined
      see(hung(batch.format, stuckAt))
      if (stuckAt + 1 < batch.to) batches.push({ ...batch, from: stuckAt + 1 })
    }
    running?.disconnect()
  }
  await Promise.all(Array.from({ length: CHILDREN }, child))
}

/** Returns the variant at which the child stopped, or `undefined` once the batch is done. */
const checkBatch = (child: ChildProcess, batch: Range, see: (finding: Finding) => void): Promise<number | undefined> =>
  new Promise((resolve) => {
    let index = batch.from
    let timer = setTimeout(() => {}, 0)
    const finish = (result: number | undefined): void => {
      clearTimeout(timer)
      child.off("message", onMessage)
      child.off("exit", onExit)
      resolve(result)
    }
    const onExit = (): void => finish(index)
    const onMessage = (report: Report): void => {
      clearTimeout(timer)
      timer = setTimeout(onExit, HANG_SECONDS * 1000)
      if ("isDone" in report) finish(undefined)
      else if ("index" in report) index = report.index
      else see(report.finding)
    }
    child.on("message", onMessage)
    child.on("exit", onExit)
    timer = setTimeout(onExit, HANG_SECONDS * 1000)
    child.send(batch)
  })

const hung = (format: HostileFormat, index: number): Finding => ({
  format,
  index,
  base: "",
  edits: [],
  sha256: "",
  measured: 0,
  played: 0,
  isSlow: false,
  cpuMs: 0,
  verdict: "hung",
  reason: `the process made no progress for ${HANG_SECONDS} s, or exited`,
})

const describe = (finding: Finding): string => {
  const { base, cpuMs, edits, measured, played, reason, verdict } = finding
  const seconds = `measured ${measured.toFixed(2)} s, ffmpeg plays ${played.toFixed(2)} s`
  const lines = [verdict === "short" ? seconds : verdict, `base: ${base}`, ...edits.map((edit) => `edit: ${edit}`)]
  return [...lines, ...(reason === "" ? [] : [reason]), `${cpuMs.toFixed(0)} ms of CPU time`].join("\n")
}

/** Counts the failures by the beginning of each edit's description, to show what the failures have in common. */
const byEdit = (failures: ReadonlyArray<Finding>): string => {
  const counts = new Map<string, number>()
  for (const { edits } of failures)
    for (const kind of new Set(edits.map((edit) => edit.split(" ").slice(0, 3).join(" "))))
      counts.set(kind, (counts.get(kind) ?? 0) + 1)
  const sorted = [...counts].toSorted(([, one], [, other]) => other - one)
  return sorted
    .slice(0, 15)
    .map(([kind, count]) => `${count} "${kind} …"`)
    .join(", ")
}

const runFormat = async (
  options: ReturnType<typeof readOptions>,
  format: HostileFormat,
  directory: string,
): Promise<number> => {
  const { seed, variants } = options
  const materials = loadMaterials(directory)
  const output = join(directory, "failures")
  mkdirSync(output, { recursive: true })
  const failures: Array<Finding> = []
  const counts = { refused: 0, right: 0, short: 0, died: 0, hung: 0, slowPlays: 0, slowProbes: 0, silent: 0 }
  let mostCpuMs = 0
  const began = performance.now()
  await checkAll({ directory, format, seed, from: 0, to: variants }, (finding) => {
    counts[finding.verdict]++
    if (finding.isSlow) counts.slowPlays++
    if (finding.verdict === "right" && finding.played === 0) counts.silent++
    if (finding.cpuMs > MAX_CPU_MS) counts.slowProbes++
    mostCpuMs = Math.max(mostCpuMs, finding.cpuMs)
    if (["short", "died", "hung"].includes(finding.verdict) || finding.cpuMs > MAX_CPU_MS) {
      failures.push(finding)
      const name = join(output, `${format} ${seed}-${finding.index}`)
      writeFileSync(`${name}.${format}`, makeVariant(materials, format, seed, finding.index).bytes)
      writeFileSync(`${name}.txt`, `${describe(finding)}\n`)
    }
  })
  const ratio = ({ measured, played }: Finding): number => played / Math.max(measured, 0.01)
  const worst = failures.filter(({ verdict }) => verdict === "short").toSorted((a, b) => ratio(b) - ratio(a))
  console.log(
    `figure: ${format}, seed ${seed}: ${variants} variants, ${counts.refused} refused, ${counts.right} measured long enough ` +
      `(${counts.silent} of them play nothing), ${counts.short} measured short, ${counts.died} exceptions, ${counts.hung} hangs, ` +
      `${counts.slowProbes} probes above ${MAX_CPU_MS} ms (most: ${mostCpuMs.toFixed(0)} ms), ${counts.slowPlays} stopped by the ` +
      `limit of ffmpeg, in ${((performance.now() - began) / 1000).toFixed(0)} s`,
  )
  for (const finding of [...worst.slice(0, 12), ...failures.filter(({ verdict }) => verdict !== "short").slice(0, 5)])
    console.log(`\n${format} ${seed}-${finding.index}: ${describe(finding)}`)
  if (failures.length > 0)
    console.log(`\nEdits of the failing files: ${byEdit(failures)}\nFailing files of ${format} are in ${output}\n`)
  return failures.length
}

const runOne = async (
  options: ReturnType<typeof readOptions>,
  format: HostileFormat,
  directory: string,
): Promise<number> => {
  const finding = await check(loadMaterials(directory), new Oracle(directory), {
    format,
    seed: options.seed,
    index: options.only,
  })
  const path = join(directory, `only.${format}`)
  writeFileSync(path, makeVariant(loadMaterials(directory), format, options.seed, options.only).bytes)
  console.log(`${format} ${options.seed}-${options.only}: ${finding.verdict}\n${describe(finding)}\n${path}`)
  return finding.verdict === "right" || finding.verdict === "refused" ? 0 : 1
}

const runCosts = async (formats: ReadonlyArray<HostileFormat>): Promise<number> => {
  let failures = 0
  let longestGapMs = 0
  for (const file of costFiles.filter(({ format }) => formats.some((wanted) => wanted === format))) {
    const { cpuMs, gapMs, name, outcome } = await measureCost(file)
    const isTooMuch = cpuMs > MAX_CPU_MS || outcome === "died"
    if (isTooMuch) failures++
    longestGapMs = Math.max(longestGapMs, gapMs)
    const costs = `${cpuMs.toFixed(0)} ms of CPU time, longest gap ${gapMs.toFixed(1)} ms`
    if (isTooMuch || gapMs > MAX_GAP_MS) console.log(`figure: ${name}: ${outcome}, ${costs}`)
  }
  console.log(
    `figure: ${costFiles.length} large files, ${failures} above ${MAX_CPU_MS} ms, longest gap ${longestGapMs.toFixed(1)} ms`,
  )
  return failures
}

const main = async (): Promise<void> => {
  const options = readOptions()
  if (options.help) {
    console.log(usage)
    return
  }
  let failures = 0
  if (!options.onlyCosts) {
    const version = ffmpegVersion()
    if (version === undefined) throw new Error("ffmpeg is not installed; install it, or measure only --costs")
    const directory = cacheDirectory(version)
    await encodeMaterials(directory)
    for (const format of options.formats)
      failures += await (options.only >= 0 ? runOne : runFormat)(options, format, directory)
  }
  if (options.hasCosts && options.only < 0) failures += await runCosts(options.formats)
  process.exitCode = failures > 0 ? 1 : 0
}

if (process.argv.includes("--serve")) serve()
else await main()
