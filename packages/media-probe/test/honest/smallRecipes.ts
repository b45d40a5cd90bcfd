import { encodeWithWavPackage } from "./npmEncoders.ts"
import {
  ffmpeg,
  ffmpegPipe,
  gstreamer,
  pipe,
  python,
  type Recipe,
  recipe,
  run,
  type RecipeShape,
  shell,
} from "./Recipe.ts"
import type { Signal } from "./signals.ts"

/** Half a second, small enough to be committed. */
const speech: Signal = { kind: "speech", rate: 8000, layout: "mono", seconds: 0.5 }

const small = (
  format: RecipeShape["format"],
  group: string,
  settings: string,
  ...steps: RecipeShape["steps"]
): Recipe => recipe({ format, group, settings: `small-${settings}`, source: speech, steps })

const wavex =
  "import soundfile, sys; d, r = soundfile.read(sys.argv[1]); soundfile.write(sys.argv[2], d, r, format='WAVEX', subtype='FLOAT')"

/** Short files of containers whose other files are too large for the committed selection. */
export const smallRecipes: ReadonlyArray<Recipe> = [
  recipe({
    format: "wav",
    group: "ffmpeg-pcm_f64le",
    settings: "small-mono",
    source: { ...speech, seconds: 0.35 },
    steps: [ffmpeg("wav", "-c:a", "pcm_f64le")],
  }),
  small("wav", "ffmpeg-pcm_s16le", "rf64", ffmpeg("wav", "-c:a", "pcm_s16le", "-rf64", "always")),
  small("wav", "libsndfile-wav", "wavex-float", python("soundfile", "wav", wavex)),
  small("wav", "libsndfile-wav", "ulaw", run("sndfile-convert", "wav", "-ulaw", "$in", "$out")),
  small("wav", "sox-wav", "pipe", pipe("sox", "wav", "$stdin", "-t", "wav", "-", "-t", "wav", "-")),
  small(
    "wav",
    "flac-decode",
    "pipe",
    run("flac", "flac", "--silent", "-f", "-o", "$out", "$in"),
    pipe("flac", "wav", "--silent", "-d", "-c", "$in"),
  ),
  small("wav", "npm-wavefile", "cue", encodeWithWavPackage("wavefile", "cue")),
  small("wav", "gstreamer-wavenc", "s24", gstreamer("wav", "audio/x-raw,format=S24LE ! wavenc")),
  small("m4a", "ffmpeg-flac-in-mp4", "moov-last", ffmpeg("mp4", "-c:a", "flac", "-strict", "-2")),
  small("m4a", "ffmpeg-pcm_s16be-in-mov", "moov-last", ffmpeg("mov", "-c:a", "pcm_s16be")),
  small("mp4", "ffmpeg-pcm_s24le-in-mov", "faststart", ffmpeg("mov", "-c:a", "pcm_s24le", "-movflags", "+faststart")),
  small("mp4", "ffmpeg-aac", "moov-last", ffmpeg("mp4", "-c:a", "aac", "-b:a", "16k")),
  small("mp4", "ffmpeg-alac-in-mp4", "moov-last", ffmpeg("mp4", "-c:a", "alac")),
  small(
    "m4a",
    "ffmpeg-tracks",
    "two-audio",
    shell(["ffmpeg"], "mp4", `ffmpeg -v error -nostdin -y -i "$1" -i "$1" -map 0:a -map 1:a -c:a aac -b:a 16k "$2"`),
  ),
  small("mp3", "lame", "cover-png", run("lame", "mp3", "--silent", "--ti", "$cover.png", "-b", "24", "$in", "$out")),
  small(
    "webm",
    "ffmpeg-libopus",
    "live-pipe",
    ffmpegPipe("webm", "webm", "-c:a", "libopus", "-b:a", "16k", "-live", "1"),
  ),
  small("webm", "ffmpeg-libopus", "100ms", ffmpeg("webm", "-c:a", "libopus", "-b:a", "16k", "-frame_duration", "100")),
]
