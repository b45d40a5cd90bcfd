import { execFileSync } from "node:child_process"
import { KilnProcess, serve } from "@kiln/service-lab"
import { expect } from "vitest"
import { runInProcess } from "../../support/runInProcess.ts"
import type { Act, Changes, Environment, Scene } from "./Planted.ts"

type Fill = Readonly<Record<string, string>> | ((scene: Scene) => Readonly<Record<string, string>>)

/** What the printed remedies contain of a command, with its placeholders filled in. Fails unless it was printed. */
export const printedIn = (scene: Scene, pattern: RegExp, fill: Fill = {}): string => {
  const found = pattern.exec(scene.printed)?.[0]
  if (found === undefined) throw new Error(`${String(pattern)} was not printed: ${scene.printed}`)
  const values = typeof fill === "function" ? fill(scene) : fill
  return Object.entries(values).reduce((text, [name, value]) => {
    if (!text.includes(name)) throw new Error(`there is no ${name} in ${text}`)
    return text.replaceAll(name, value)
  }, found)
}

/** The words of a command line, as a shell reads them. */
const wordsOf = (line: string): ReadonlyArray<string> =>
  JSON.parse(
    execFileSync("sh", ["-c", `set -- ${line}; exec node -p 'JSON.stringify(process.argv.slice(1))' -- "$@"`], {
      encoding: "utf8",
    }),
  )

/** Runs a printed command line of kiln: `KILN_DATA_DIR=./new kiln migrate`, `npx -y pnpm@12 kiln key create …`. */
export const runPrinted = async (line: string, env: Environment): Promise<string> => {
  const words = wordsOf(line)
  const program = words.indexOf("kiln")
  const variables = words.slice(0, program).filter((word) => /^[A-Z_]+=/.test(word))
  const given = Object.fromEntries(variables.map((word) => word.split(/=(.*)/).slice(0, 2)))
  const { exit, stderr, stdout } = await runInProcess(words.slice(program + 1), { ...env, ...given })
  expect({ line, exit, stderr }).toMatchObject({ exit: 0 })
  return stdout
}

/** Runs the command of kiln that was printed. */
export const command =
  (pattern: RegExp, fill?: Fill): Act =>
  async (scene) =>
    void (await runPrinted(printedIn(scene, pattern, fill), scene.env))

/** Runs the command of the system that was printed. */
export const shell =
  (pattern: RegExp, fill?: Fill): Act =>
  async (scene) =>
    void execFileSync("sh", ["-c", printedIn(scene, pattern, fill)])

/** Changes the variables that the remedy names. */
export const set =
  (changes: Changes): Act =>
  async ({ printed }) => {
    for (const name of Object.keys(changes)) expect(printed).toContain(name)
    return changes
  }

/** Variables of a service that must not leave this machine. */
const local = { KILN_PROVIDER: "sandbox", KILN_OPENAI_API_KEY: undefined } as const

const changed = (env: Environment, changes: Changes): Environment =>
  Object.fromEntries(
    Object.entries({ ...env, ...changes }).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  )

/** Starts `kiln serve`, which the remedy names. */
export const start =
  (changes: Changes = {}): Act =>
  async (scene) => {
    expect(scene.printed).toContain("kiln serve")
    await startService(scene, changes)
  }

export const startService = async (scene: Scene, changes: Changes = {}) => {
  scene.wait()
  return scene.started.use(await serve(changed(scene.env, { ...local, ...changes })))
}

/** Starts a process that only runs jobs. */
export const startWorker =
  (changes: Changes = {}): Act =>
  async ({ env, printed, started, wait }) => {
    wait()
    expect(printed).toMatch(/start (a|more) workers?/)
    started.use(new KilnProcess(["serve"], changed(env, { ...local, PORT: "0", KILN_ROLE: "worker", ...changes })))
  }

/** Several acts, one after another. */
export const inTurn =
  (...acts: ReadonlyArray<Act>): Act =>
  async (scene) => {
    let changes: Changes = {}
    for (const act of acts) changes = { ...changes, ...(await act({ ...scene, env: changed(scene.env, changes) })) }
    return changes
  }

/** Looks again, as the user does, with the variables that the remedy changed. */
export const changedBy = async (scene: Scene, act: Act): Promise<Environment> =>
  changed(scene.env, (await act(scene)) ?? {})
