import { spawn } from "node:child_process"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { freshDatabase } from "@kiln/postgres-lab"
import { temporaryDirectory } from "@kiln/service-lab"
import { expect, it } from "vitest"

const program = join(import.meta.dirname, "support/submitUnique.ts")

interface Answer {
  readonly made: number
  readonly ids: ReadonlyArray<string>
}

/** A process that submits through its own engine. */
const submitter = async (place: string) => {
  const child = spawn(process.execPath, ["--conditions=@kiln/source", program, place], {
    stdio: ["pipe", "pipe", "inherit"],
  })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const next = async (): Promise<string> => {
    const { done, value } = await lines.next()
    if (done === true) throw new Error("the process ended")
    return value
  }
  expect(await next()).toBe("ready")
  return {
    submit: async (scope: string): Promise<Answer> => {
      child.stdin.write(`${scope}\n`)
      return JSON.parse(await next()) as Answer
    },
    [Symbol.dispose]: () => child.kill("SIGKILL"),
  }
}

it.each(["sqlite", "postgres"])(
  "fifty submissions at once, from two processes, that must be unique while unfinished: one job, on %s",
  async (store) => {
    using directory = temporaryDirectory()
    await using database = store === "postgres" ? await freshDatabase() : null
    const place = database?.url ?? join(directory.path, "kiln.db")
    // One after the other, so that they do not migrate at the same time.
    using one = await submitter(place)
    using other = await submitter(place)
    for (const scope of ["a", "b", "c", "d", "e", "f"]) {
      const answers = await Promise.all([one.submit(scope), other.submit(scope)])
      expect(answers.reduce((sum, { made }) => sum + made, 0)).toBe(1)
      expect(new Set(answers.flatMap(({ ids }) => ids)).size).toBe(1)
    }
  },
)
