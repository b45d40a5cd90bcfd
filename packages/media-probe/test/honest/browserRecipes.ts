import { type Recipe, recipe, type Recording, signal, type Step, type Tool } from "./Recipe.ts"
import type { Layout, SignalKind } from "./signals.ts"

const kinds: ReadonlyArray<SignalKind> = [
  "speech",
  "music",
  "silence",
  "white-noise",
  "tone-440",
  "clipped-speech",
  "quiet-speech",
]

const record = (browser: Tool, tools: ReadonlyArray<Tool>, recording: Recording): Step => ({
  kind: "record",
  browser,
  tools: [browser, ...tools],
  recording,
})

interface Way {
  readonly settings: string
  readonly recording: Recording
}

const recipesOf = (
  browser: Tool,
  tools: ReadonlyArray<Tool>,
  name: string,
  ways: ReadonlyArray<Way>,
  count: number,
): ReadonlyArray<Recipe> =>
  ways.flatMap(({ recording, settings }, way) =>
    Array.from({ length: count }, (_, index) => {
      const format = recording.mimeType.includes("mp4") ? (index % 2 === 0 ? "mp4" : "m4a") : "webm"
      const source = signal(`${name} ${settings} ${index}`, {
        rate: 48_000,
        kind: kinds[(way + index) % kinds.length] ?? "speech",
        layout: (["mono", "stereo"] satisfies ReadonlyArray<Layout>)[index % 2] ?? "mono",
        seconds: [0.6, 1.2, 2.3, 3.4][(way + index) % 4] ?? 1,
      })
      return recipe({
        format,
        group: `${name}-${format === "webm" ? "webm" : "mp4"}`,
        settings,
        source,
        steps: [record(browser, tools, recording)],
      })
    }),
  )

const chromium: ReadonlyArray<Way> = [
  { settings: "opus", recording: { mimeType: "audio/webm;codecs=opus" } },
  { settings: "opus-16k", recording: { mimeType: "audio/webm;codecs=opus", bitsPerSecond: 16_000 } },
  {
    settings: "opus-128k-slices",
    recording: { mimeType: "audio/webm;codecs=opus", bitsPerSecond: 128_000, sliceMs: 250 },
  },
  { settings: "opus-pause", recording: { mimeType: "audio/webm", hasPause: true } },
  { settings: "opus-microphone", recording: { mimeType: "audio/webm", isMicrophone: true } },
  { settings: "pcm", recording: { mimeType: "audio/webm;codecs=pcm" } },
  { settings: "pcm-slices", recording: { mimeType: "audio/webm;codecs=pcm", sliceMs: 200 } },
  { settings: "opus-in-mp4", recording: { mimeType: "audio/mp4;codecs=opus" } },
  { settings: "opus-in-mp4-slices", recording: { mimeType: "audio/mp4;codecs=opus", sliceMs: 300 } },
  { settings: "opus-in-mp4-pause", recording: { mimeType: "audio/mp4;codecs=opus", hasPause: true } },
  { settings: "vp8-opus", recording: { mimeType: "video/webm;codecs=vp8,opus", withVideo: true } },
  { settings: "vp9-opus-slices", recording: { mimeType: "video/webm;codecs=vp9,opus", withVideo: true, sliceMs: 250 } },
  { settings: "vp9-opus-in-mp4", recording: { mimeType: "video/mp4;codecs=vp9,opus", withVideo: true } },
  { settings: "h264-opus-in-mp4", recording: { mimeType: "video/mp4;codecs=avc1.42001e,opus", withVideo: true } },
]

const firefox: ReadonlyArray<Way> = [
  { settings: "opus-microphone", recording: { mimeType: "audio/webm;codecs=opus", isMicrophone: true } },
  { settings: "opus-microphone-16k", recording: { mimeType: "audio/webm", isMicrophone: true, bitsPerSecond: 16_000 } },
  { settings: "opus-microphone-slices", recording: { mimeType: "audio/webm", isMicrophone: true, sliceMs: 250 } },
  { settings: "opus-microphone-pause", recording: { mimeType: "audio/webm", isMicrophone: true, hasPause: true } },
  {
    settings: "vp8-opus-microphone",
    recording: { mimeType: "video/webm;codecs=vp8,opus", isMicrophone: true, withVideo: true },
  },
]

const webkit: ReadonlyArray<Way> = [
  { settings: "aac", recording: { mimeType: "audio/mp4" } },
  { settings: "aac-32k", recording: { mimeType: "audio/mp4;codecs=mp4a.40.2", bitsPerSecond: 32_000 } },
  { settings: "aac-slices", recording: { mimeType: "audio/mp4", sliceMs: 300 } },
  { settings: "opus", recording: { mimeType: "audio/mp4;codecs=opus" } },
]

/** Recordings of the three browser engines. */
export const browserRecipes: ReadonlyArray<Recipe> = [
  ...recipesOf("chromium", [], "chromium", chromium, 4),
  ...recipesOf("firefox-esr", [], "firefox", firefox, 4),
  ...recipesOf("WebKitWebDriver", ["Xvfb"], "webkitgtk", webkit, 4),
]
