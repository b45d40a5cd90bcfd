import { encodeWithMediabunny, muxWithWebmMuxer, remuxWithMediabunny } from "./npmEncoders.ts"
import { ffmpeg, ffmpegPipe, gstreamer, pick, type Recipe, recipe, run, signals, type Step } from "./Recipe.ts"
import type { Signal } from "./signals.ts"

const opusRates = [8000, 12_000, 16_000, 24_000, 48_000]
const vorbisRates = [8000, 11_025, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000]

const made = (group: string, settings: string, source: Signal, ...steps: ReadonlyArray<Step>): Recipe =>
  recipe({ format: "webm", group, settings, source, steps })

const opusOptions: Readonly<Record<string, string>> = {
  "6k": "-b:a 6k",
  "12k-voip": "-b:a 12k -application voip",
  "24k": "-b:a 24k",
  "64k": "-b:a 64k",
  "160k": "-b:a 160k",
  "cbr-32k": "-b:a 32k -vbr off",
  "constrained-40k": "-b:a 40k -vbr constrained",
  "2.5ms": "-b:a 96k -frame_duration 2.5 -application lowdelay",
  "5ms": "-b:a 64k -frame_duration 5",
  "10ms": "-b:a 48k -frame_duration 10",
  "40ms": "-b:a 24k -frame_duration 40",
  "60ms": "-b:a 16k -frame_duration 60",
  "80ms": "-b:a 16k -frame_duration 80",
  "100ms": "-b:a 12k -frame_duration 100",
  "120ms": "-b:a 12k -frame_duration 120",
  fec: "-b:a 20k -fec 1 -packet_loss 10 -application voip",
}

/** Ways of writing the same packets. */
const muxing: Readonly<Record<string, string>> = {
  plain: "",
  "short-clusters": "-cluster_time_limit 200",
  "one-cluster": "-cluster_time_limit 30000",
  "small-clusters": "-cluster_size_limit 500",
  "cues-first": "-cues_to_front 1",
  "reserved-index": "-reserve_index_space 1000",
  live: "-live 1",
  dash: "-dash 1 -dash_track_number 1",
  "no-crc": "-write_crc32 0",
  tags: "-metadata title=recording -metadata artist=kiln",
}

const ffmpegOpus = (): ReadonlyArray<Recipe> => [
  ...Object.entries(opusOptions).flatMap(([settings, args]) =>
    opusRates.flatMap((rate) =>
      signals(1, `opus ${settings} ${rate}`, { rate }).map((source) =>
        made("ffmpeg-libopus", settings, source, ffmpeg("webm", "-c:a", "libopus", ...args.split(" "))),
      ),
    ),
  ),
  ...signals(4, "opus surround", { rate: 48_000, layout: "surround" }).map((source) =>
    made("ffmpeg-libopus", "surround", source, ffmpeg("webm", "-c:a", "libopus", "-b:a", "192k")),
  ),
  ...signals(4, "native opus", { rate: 48_000 }).map((source) =>
    made("ffmpeg-opus", "64k", source, ffmpeg("webm", "-c:a", "opus", "-strict", "-2", "-b:a", "64k")),
  ),
  // Silent frames of one byte.
  ...(["speech", "silence", "clicks", "quiet-noise"] as const).flatMap((kind) =>
    [16_000, 48_000].flatMap((rate) =>
      signals(2, `dtx ${kind} ${rate}`, { rate, kind }).map((source) =>
        made(
          "opusenc-webm",
          "discontinuous",
          source,
          run("opusenc", "opus", "--quiet", "--bitrate", "16", "--set-ctl-int", "4016=1", "$in", "$out"),
          ffmpeg("webm", "-c:a", "copy"),
        ),
      ),
    ),
  ),
]

const ffmpegMuxing = (): ReadonlyArray<Recipe> =>
  Object.entries(muxing).flatMap(([settings, args]) =>
    (
      [
        ["opus", "-c:a libopus -b:a 24k", 48_000],
        ["opus", "-c:a libopus -b:a 24k -frame_duration 60", 16_000],
        ["vorbis", "-c:a libvorbis -q:a 1", 44_100],
        ["vorbis", "-c:a libvorbis -q:a 3", 16_000],
      ] as const
    ).flatMap(([codec, codecArgs, rate]) => {
      const all = `${codecArgs} ${args}`.trim().split(" ")
      return signals(1, `webm ${settings} ${codec} ${rate}`, { rate }).flatMap((source) => [
        made(`ffmpeg-lib${codec}`, settings, source, ffmpeg("webm", ...all)),
        // The sizes and the duration in the header of a stream are not known.
        made(`ffmpeg-lib${codec}`, `${settings}-pipe`, source, ffmpegPipe("webm", "webm", ...all)),
      ])
    }),
  )

const ffmpegVorbis = (): ReadonlyArray<Recipe> => [
  ...["-1", "0", "2", "5", "9"].flatMap((quality) =>
    vorbisRates.flatMap((rate) =>
      signals(1, `vorbis ${quality} ${rate}`, rate > 48_000 ? { rate, seconds: 1 } : { rate }).map((source) =>
        made("ffmpeg-libvorbis", `q${quality}`, source, ffmpeg("webm", "-c:a", "libvorbis", "-q:a", quality)),
      ),
    ),
  ),
  ...signals(4, "vorbis abr", { rate: 44_100 }).map((source) =>
    made("ffmpeg-libvorbis", "80k", source, ffmpeg("webm", "-c:a", "libvorbis", "-b:a", "80k")),
  ),
  ...[44_100, 48_000].flatMap((rate) =>
    signals(3, `native vorbis ${rate}`, { rate, layout: "stereo" }).map((source) =>
      made("ffmpeg-vorbis", "", source, ffmpeg("webm", "-c:a", "vorbis", "-strict", "-2", "-ac", "2", "-b:a", "96k")),
    ),
  ),
]

const ff = (line: string): Step => run("ffmpeg", "webm", ..."-v error -nostdin -y".split(" "), ...line.split(" "))

const withVideo = (): ReadonlyArray<Recipe> =>
  (
    [
      ["vp8", "-c:v libvpx -b:v 60k -deadline realtime -cpu-used 8"],
      ["vp9", "-c:v libvpx-vp9 -b:v 60k -deadline realtime -cpu-used 8"],
    ] as const
  ).flatMap(([video, videoArgs]) =>
    (
      [
        ["opus", "-c:a libopus -b:a 24k", 48_000],
        ["vorbis", "-c:a libvorbis -q:a 1", 44_100],
      ] as const
    ).flatMap(([codec, args, rate]) =>
      ["", "-live 1", "-cues_to_front 1", "-cluster_time_limit 300"].flatMap((mux) =>
        signals(2, `webm video ${video} ${codec} ${mux}`, { rate }).map((source) =>
          made(
            `ffmpeg-${video}`,
            [codec, mux.replace(/^-/, "").replaceAll(/[ _]/g, "-")].filter(Boolean).join("-"),
            source,
            ff(
              `-i $in -f lavfi -i testsrc=size=64x48:rate=10 -map 1:v -map 0:a -t ${source.seconds} ${videoArgs} ${args} ${mux} $out`.replaceAll(
                "  ",
                " ",
              ),
            ),
          ),
        ),
      ),
    ),
  )

const severalTracks = (): ReadonlyArray<Recipe> => [
  ...signals(4, "webm two tracks", { rate: 48_000, seconds: 2, layout: "stereo" }).map((source) =>
    made(
      "ffmpeg-tracks-webm",
      "two-audio",
      source,
      ff("-i $in -i $other.wav -map 0:a -map 1:a -c:a libopus -b:a 24k $out"),
    ),
  ),
  ...signals(4, "webm opus and vorbis", { rate: 48_000, seconds: 1 }).map((source) =>
    made(
      "ffmpeg-tracks-webm",
      "opus-and-vorbis",
      source,
      ff("-i $in -map 0:a -map 0:a -c:a:0 libopus -c:a:1 libvorbis $out"),
    ),
  ),
  ...signals(3, "webm chapters", { rate: 48_000, seconds: 1 }).map((source) =>
    made(
      "ffmpeg-tracks-webm",
      "chapters",
      source,
      ff("-i $in -i $chapters.txt -map 0:a -map_metadata 1 -map_chapters 1 -c:a libopus -b:a 24k $out"),
    ),
  ),
  ...["0.4", "1.1"].flatMap((start) =>
    (["libopus", "libvorbis"] as const).flatMap((codec) =>
      signals(2, `webm cut ${start} ${codec}`, { rate: 48_000, seconds: 3 }).map((source) => ({
        ...made(
          "ffmpeg-cut-webm",
          `${codec}-from-${start}`,
          source,
          ffmpeg("webm", "-c:a", codec),
          ff(`-ss ${start} -i $in -c copy $out`),
        ),
        seconds: undefined,
      })),
    ),
  ),
]

const opusenc = (...args: ReadonlyArray<string>): Step => run("opusenc", "opus", "--quiet", ...args, "$in", "$out")
const oggenc = (...args: ReadonlyArray<string>): Step => run("oggenc", "ogg", "-Q", ...args, "-o", "$out", "$in")

const mkvmergeOptions: Readonly<Record<string, string>> = {
  plain: "",
  "no-lacing": "--disable-lacing",
  "no-cues": "--no-cues",
  "long-clusters": "--cluster-length 30000ms",
  "short-clusters": "--cluster-length 2",
  "no-track-statistics": "--disable-track-statistics-tags",
  "no-duration": "--no-date",
}

/** mkvmerge laces the packets of Vorbis, so that one block holds several. */
const mkvmerge = (): ReadonlyArray<Recipe> =>
  Object.entries(mkvmergeOptions).flatMap(([settings, args]) =>
    (
      [
        ["opusenc-mkvmerge", opusenc("--bitrate", "24"), 48_000],
        ["opusenc-mkvmerge", opusenc("--bitrate", "16", "--framesize", "60"), 16_000],
        ["oggenc-mkvmerge", oggenc("-q", "1"), 44_100],
        ["oggenc-mkvmerge", oggenc("-q", "4"), 22_050],
      ] as const
    ).flatMap(([group, encode, rate]) =>
      signals(2, `mkvmerge ${settings} ${group} ${rate}`, { rate }).map((source) =>
        made(
          group,
          settings,
          source,
          encode,
          run("mkvmerge", "webm", "-q", "--webm", ...args.split(" ").filter(Boolean), "-o", "$out", "$in"),
        ),
      ),
    ),
  )

const oggEncoders = (): ReadonlyArray<Recipe> => [
  ...["2.5", "5", "10", "20", "40", "60"].flatMap((frame) =>
    signals(2, `opusenc ${frame}`, { rate: pick([16_000, 44_100, 48_000], frame) }).map((source) =>
      made(
        "opusenc-webm",
        `${frame}ms`,
        source,
        opusenc("--framesize", frame, "--bitrate", "32"),
        ffmpeg("webm", "-c:a", "copy"),
      ),
    ),
  ),
  ...["-1", "3", "8"].flatMap((quality) =>
    [8000, 22_050, 44_100].flatMap((rate) =>
      signals(1, `oggenc ${quality} ${rate}`, { rate }).map((source) =>
        made("oggenc-webm", `q${quality}`, source, oggenc("-q", quality), ffmpeg("webm", "-c:a", "copy")),
      ),
    ),
  ),
  ...signals(3, "oggenc managed", { rate: 44_100 }).map((source) =>
    made(
      "oggenc-webm",
      "managed",
      source,
      oggenc("--managed", "-b", "64", "-m", "32", "-M", "128"),
      ffmpegPipe("webm", "webm", "-c:a", "copy"),
    ),
  ),
]

const gstreamerWebm = (): ReadonlyArray<Recipe> =>
  (
    [
      ["opusenc", "opusenc bitrate=24000", 48_000],
      ["opusenc-60ms", "opusenc bitrate=16000 frame-size=60 dtx=true", 16_000],
      ["opusenc-2.5ms", "opusenc bitrate=64000 frame-size=2.5", 48_000],
      ["vorbisenc", "vorbisenc quality=0.2", 44_100],
      ["vorbisenc-high", "vorbisenc quality=0.8", 22_050],
    ] as const
  ).flatMap(([encoder, pipeline, rate]) =>
    (
      [
        ["", "webmmux"],
        ["streamable", "webmmux streamable=true"],
        ["offset", "webmmux offset-to-zero=true min-index-interval=100000000"],
        ["cluster-200ms", "webmmux max-cluster-duration=200000000"],
      ] as const
    ).flatMap(([settings, mux]) =>
      signals(2, `gst webm ${encoder} ${settings}`, { rate }).map((source) =>
        made(`gstreamer-${encoder}-webmmux`, settings, source, gstreamer("webm", `${pipeline} ! ${mux}`)),
      ),
    ),
  )

const npmWebm = (): ReadonlyArray<Recipe> =>
  [16_000, 48_000].flatMap((rate) =>
    signals(4, `npm webm ${rate}`, { rate }).flatMap((source) => {
      const opus = ffmpeg("webm", "-c:a", "libopus", "-b:a", "24k")
      const vorbis = ffmpeg("webm", "-c:a", "libvorbis", "-q:a", "1")
      return [
        made("npm-webm-muxer", "opus", source, opus, muxWithWebmMuxer(false)),
        made("npm-webm-muxer", "opus-streaming", source, opus, muxWithWebmMuxer(true)),
        made("mediabunny-remux", "opus-in-webm", source, opus, remuxWithMediabunny("webm")),
        made("mediabunny-remux", "opus-in-webm-append-only", source, opus, remuxWithMediabunny("webm-append-only")),
        made("mediabunny-remux", "vorbis-in-webm", source, vorbis, remuxWithMediabunny("webm")),
        made("mediabunny-remux", "vorbis-in-webm-append-only", source, vorbis, remuxWithMediabunny("webm-append-only")),
        ...(rate === 48_000
          ? [
              made("mediabunny-opus", "webm", source, encodeWithMediabunny("opus", "webm", 32)),
              made("mediabunny-opus", "webm-append-only", source, encodeWithMediabunny("opus", "webm-append-only", 32)),
              made("mediabunny-vorbis", "webm", source, encodeWithMediabunny("vorbis", "webm", 64)),
            ]
          : []),
      ]
    }),
  )

export const webmRecipes: ReadonlyArray<Recipe> = [
  ...ffmpegOpus(),
  ...ffmpegMuxing(),
  ...ffmpegVorbis(),
  ...withVideo(),
  ...severalTracks(),
  ...mkvmerge(),
  ...oggEncoders(),
  ...gstreamerWebm(),
  ...npmWebm(),
]
