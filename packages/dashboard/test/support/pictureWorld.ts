import { DatabaseSync } from "node:sqlite"
import { builtInKinds } from "@kiln/core"
import { sandboxProviders } from "@kiln/provider-sandbox"
import { openWorld } from "./world.ts"

const minuteMs = 60_000

/** The figures of an hour: a morning's load, with a backlog in the middle of it that is worked off. */
const writeHour = (path: string): void => {
  const database = new DatabaseSync(path)
  const insert = database.prepare("INSERT OR REPLACE INTO kiln_minutes (at, figures) VALUES (?, ?)")
  const thisMinute = Date.now() - (Date.now() % minuteMs)
  for (let ago = 59; ago >= 0; ago -= 1) {
    const n = 60 - ago
    const backlog = Math.max(0, Math.round(26 * Math.exp(-((n - 34) ** 2) / 40)))
    const wave = Math.round(6 * Math.sin(n / 5) + 3 * Math.sin(n * 1.7))
    const figures = {
      "speech_synthesis sandbox": [backlog, 4, 1, backlog * 900, 22 + wave + (n > 34 ? 6 : 0), n % 17 === 0 ? 2 : 0],
      "image_generation sandbox": [Math.round(backlog / 4), 2, 0, backlog * 400, 9 + Math.round(wave / 2), 0],
      versions: n < 41 ? { "0.9.4": 2 } : { "0.9.4": 1, "0.9.5": 1 },
    }
    insert.run(thisMinute - ago * minuteMs, JSON.stringify(figures))
  }
  database.close()
}

/** An installation as its operator may find it on a busy morning, for the pictures of the documentation. */
export const openPictureWorld = async () => {
  const world = await openWorld("sqlite", {}, { kinds: builtInKinds(), providers: { sandbox: sandboxProviders() } })
  const { engine } = world
  writeHour(world.path)
  const run = async (
    kind: string,
    request: object,
    options: { readonly project: string; readonly tags?: string[] },
  ) => {
    const { id } = await engine.submitAndWait(kind as "echo", request as never, options)
    return id
  }
  const speak = (input: string, project: string, tags: Array<string> = []) =>
    run("speech_synthesis", { input }, { project, tags })
  const draw = (prompt: string, project: string) => run("image_generation", { prompt }, { project })
  // It fails twice, and its third attempt is done.
  const flaky = speak("sandbox:flaky:2", "acme-radio", ["morning-news"])
  await Promise.all([
    ...Array.from({ length: 38 }, (_, n) => speak(`Headline ${n}`, "acme-radio", ["morning-news"])),
    ...Array.from({ length: 9 }, (_, n) => speak(`Chapter ${n}`, "audio-books")),
    ...Array.from({ length: 7 }, (_, n) => draw(`A cover, sketch ${n}`, "audio-books")),
    ...[1, 2, 3].map(() => speak("sandbox:fail:content_rejected", "guest-app")),
    draw("sandbox:fail:result_invalid", "guest-app"),
  ])
  const jobId = await flaky
  await Promise.all(
    Array.from({ length: 5 }, (_, n) =>
      engine.submit("speech_synthesis" as "echo", { input: `Evening ${n}` } as never, {
        project: "acme-radio",
        delayMs: 3 * 3_600_000,
      }),
    ),
  )
  return { world, jobId }
}
