import { execFile, spawn } from "node:child_process"
import { createHash } from "node:crypto"
import { existsSync } from "node:fs"
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises"
import { dirname, join } from "node:path"
import { promisify } from "node:util"
import { noisePng } from "./edits.ts"
import type { Asset, Recipe, Step } from "./Recipe.ts"
import { isSpeech, type Signal, signalFile, signalName, SPEECH_RATE } from "./signals.ts"
import { cacheDirectory, load, npmDirectory } from "./tools.ts"

const execute = promisify(execFile)

/** Time limit of one program. */
const TIMEOUT_MS = 60_000

/** Returns the path of a recipe's file; it changes with the recipe. */
export const pathOf = (recipe: Recipe): string => {
  const hash = createHash("sha256")
    .update(JSON.stringify([recipe.source, recipe.steps]))
    .digest("hex")
    .slice(0, 8)
  return join(cacheDirectory, "files", `${recipe.name}.${hash}.${recipe.format}`)
}

/** Builds the file of a recipe unless it is cached, and returns its path. Browsers' recordings are built elsewhere. */
export const generate = async (recipe: Recipe): Promise<string> => {
  const path = pathOf(recipe)
  if (existsSync(path)) return path
  const work = join(
    cacheDirectory,
    "work",
    `${process.pid}-${createHash("sha256").update(recipe.name).digest("hex").slice(0, 12)}`,
  )
  await mkdir(work, { recursive: true })
  try {
    let input = await signalPath(recipe.source)
    for (const [index, step] of recipe.steps.entries()) input = await perform(step, input, work, index)
    await store(path, await readFile(input))
  } finally {
    await rm(work, { recursive: true, force: true })
  }
  return path
}

const perform = async (step: Step, input: string, work: string, index: number): Promise<string> => {
  if (step.kind === "record") throw new Error("recordings are made by recordAll")
  const ext = step.kind === "edit" ? "bin" : step.ext
  const output = join(work, `${index}.${ext}`)
  if (step.kind === "edit") await writeFile(output, step.edit(await readFile(input)))
  else if (step.kind === "encode") await writeFile(output, await step.encode(await readFile(input), load))
  else {
    const args: Array<string> = []
    for (const arg of step.args) if (arg !== "$stdin") args.push(await fill(arg, input, output, work))
    if (step.pipeIn || step.pipeOut)
      await writeFile(output, await piped(step.program, args, step.pipeIn ? await readFile(input) : undefined, work))
    else await execute(step.program, args, { cwd: work, timeout: TIMEOUT_MS, maxBuffer: 1 << 26 })
    if (!existsSync(output)) throw new Error(`${step.program} wrote no file`)
  }
  return output
}

/** Replaces the placeholders of an argument. */
const fill = async (arg: string, input: string, output: string, work: string): Promise<string> => {
  let filled = arg.replace("$in", input).replace("$out", output).replace("$work", work).replace("$npm", npmDirectory)
  for (const asset of Object.keys(assets) as Array<Asset>)
    if (filled.includes(`$${asset}`)) filled = filled.replace(`$${asset}`, await assetPath(asset))
  return filled
}

const piped = async (
  program: string,
  args: ReadonlyArray<string>,
  input: Buffer | undefined,
  cwd: string,
): Promise<Buffer> => {
  const child = spawn(program, args, { cwd, timeout: TIMEOUT_MS, stdio: ["pipe", "pipe", "pipe"] })
  const output: Array<Buffer> = []
  let messages = ""
  child.stdout.on("data", (chunk: Buffer) => output.push(chunk))
  child.stderr.on("data", (chunk: Buffer) => (messages += chunk.toString()))
  // A program may close its input before it has read everything.
  child.stdin.on("error", () => {})
  child.stdin.end(input)
  const code = await new Promise<number | null>((resolve, reject) => {
    child.on("error", reject)
    child.on("close", resolve)
  })
  if (code !== 0) throw new Error(`${program} ${args.join(" ")} failed: ${messages.slice(-500)}`)
  return Buffer.concat(output)
}

/** Writes a file so that it is never seen incomplete. */
export const store = async (path: string, content: Uint8Array): Promise<void> => {
  await mkdir(dirname(path), { recursive: true })
  const temporary = `${path}.${process.pid}.tmp`
  await writeFile(temporary, content)
  await rename(temporary, path)
}

export const signalPath = async (signal: Signal): Promise<string> => {
  const path = join(cacheDirectory, "signals", `${signalName(signal)}.wav`)
  if (!existsSync(path)) await store(path, signalFile(signal, isSpeech(signal) ? await speech() : new Int16Array(0)))
  return path
}

const text = `Thank you for calling. All of our agents are busy at the moment, so please stay on the line. Your call is
number three in the queue. Did you know that you can change your address, read your meter and pay your bill on our
website? If you would like to be called back, press one. Otherwise, please hold.`

let spoken: Promise<Int16Array> | undefined
const speech = (): Promise<Int16Array> =>
  (spoken ??= (async () => {
    const path = join(cacheDirectory, "signals", "espeak.wav")
    if (!existsSync(path)) {
      await mkdir(dirname(path), { recursive: true })
      await store(
        path,
        await piped("espeak-ng", ["-v", "en-us", "-s", "165", "--stdout", text], undefined, cacheDirectory),
      )
    }
    const file = await readFile(path)
    if (file.readUInt32LE(24) !== SPEECH_RATE) throw new Error(`espeak-ng no longer speaks at ${SPEECH_RATE} Hz`)
    return new Int16Array(file.buffer.slice(file.byteOffset + 44, file.byteOffset + 44 + ((file.length - 44) & ~1)))
  })())

const assets: Readonly<Record<Asset, () => Promise<Uint8Array>>> = {
  "cover.png": async () => noisePng(40),
  "large-cover.png": async () => noisePng(320),
  "cover.jpg": async () => jpegOf("cover.png", "5"),
  "large-cover.jpg": async () => jpegOf("large-cover.png", "1"),
  "other.wav": async () => readFile(await signalPath({ kind: "tone-1000", rate: 16_000, layout: "mono", seconds: 1 })),
  "chapters.txt": async () =>
    Buffer.from(
      `;FFMETADATA1\ntitle=two chapters\n${[0, 500]
        .map((start) => `[CHAPTER]\nTIMEBASE=1/1000\nSTART=${start}\nEND=${start + 500}\ntitle=from ${start} ms\n`)
        .join("")}`,
    ),
}

const assetPath = async (asset: Asset): Promise<string> => {
  const path = join(cacheDirectory, "assets", asset)
  if (!existsSync(path)) await store(path, await assets[asset]())
  return path
}

const jpegOf = async (png: Asset, quality: string): Promise<Buffer> =>
  piped(
    "ffmpeg",
    [
      "-v",
      "error",
      "-nostdin",
      "-i",
      await assetPath(png),
      "-q:v",
      quality,
      "-pix_fmt",
      "yuvj444p",
      "-f",
      "mjpeg",
      "pipe:1",
    ],
    undefined,
    cacheDirectory,
  )
