import { encodeWithLamejs } from "./npmEncoders.ts"
import { ffmpeg, ffmpegPipe, type Recipe, recipe, run, type RecipeShape, signal } from "./Recipe.ts"
import type { SignalKind } from "./signals.ts"

/** Calls and hold music of several minutes, compressed. Those in PCM are in `wavRecipes.ts`. */
const ways: ReadonlyArray<Pick<RecipeShape, "format" | "settings" | "steps">> = [
  { format: "mp3", settings: "lame-24k", steps: [run("lame", "mp3", "--silent", "-b", "24", "$in", "$out")] },
  { format: "mp3", settings: "lame-vbr9", steps: [run("lame", "mp3", "--silent", "-V", "9", "$in", "$out")] },
  { format: "mp3", settings: "shine-32k", steps: [run("shineenc", "mp3", "-q", "-b", "32", "$in", "$out")] },
  { format: "mp3", settings: "lamejs-32k", steps: [encodeWithLamejs(32)] },
  { format: "m4a", settings: "aac-24k", steps: [ffmpeg("m4a", "-c:a", "aac", "-b:a", "24k")] },
  {
    format: "mp4",
    settings: "aac-fragmented",
    steps: [
      ffmpeg(
        "mp4",
        "-c:a",
        "aac",
        "-b:a",
        "24k",
        "-movflags",
        "+frag_keyframe+empty_moov+default_base_moof",
        "-frag_duration",
        "2000000",
      ),
    ],
  },
  { format: "m4a", settings: "alac", steps: [ffmpeg("m4a", "-c:a", "alac")] },
  { format: "webm", settings: "opus-12k", steps: [ffmpeg("webm", "-c:a", "libopus", "-b:a", "12k")] },
  {
    format: "webm",
    settings: "opus-live",
    steps: [ffmpegPipe("webm", "webm", "-c:a", "libopus", "-b:a", "12k", "-live", "1")],
  },
  { format: "webm", settings: "vorbis", steps: [ffmpeg("webm", "-c:a", "libvorbis", "-q:a", "0")] },
]

const sources: ReadonlyArray<readonly [SignalKind, number, number]> = [
  ["speech", 16_000, 170],
  ["music", 16_000, 240],
  ["quiet-speech", 16_000, 300],
]

export const longRecipes: ReadonlyArray<Recipe> = ways.flatMap(({ format, settings, steps }) =>
  sources.map(([kind, rate, seconds]) =>
    recipe({
      format,
      group: `long-${format}`,
      settings,
      source: signal(`long ${settings} ${kind}`, { kind, rate, seconds, layout: "mono" }),
      steps,
    }),
  ),
)
