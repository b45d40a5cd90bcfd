import { behind, noise } from "./edits.ts"
import {
  encodeWithMediabunny,
  fragmentWithMp4box,
  muxWithMp4Muxer,
  muxWithMuxJs,
  remuxWithMediabunny,
  type MediabunnyContainer,
} from "./npmEncoders.ts"
import {
  edit,
  ffmpeg,
  ffmpegPipe,
  gstreamer,
  pick,
  type Recipe,
  recipe,
  run,
  shell,
  signals,
  type Step,
  vlc,
} from "./Recipe.ts"
import type { Signal } from "./signals.ts"
import { box } from "../support/files.ts"

const aacRates = [8000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 64_000, 88_200, 96_000]

/** Uploads call the same container `mp4` and `m4a`. */
const made = (group: string, settings: string, source: Signal, ...steps: ReadonlyArray<Step>): Recipe =>
  recipe({
    format: pick(["mp4", "m4a"], `${group} ${settings} ${source.kind} ${source.rate}`),
    group,
    settings,
    source,
    steps,
  })

const some = (count: number, seed: string, rate: number): ReadonlyArray<Signal> =>
  signals(count, seed, rate > 48_000 ? { rate, seconds: pick([0.5, 1, 2], seed) } : { rate })

/** Layouts of the file around the same packets. */
const layouts: Readonly<Record<string, ReadonlyArray<string>>> = {
  "moov-last": [],
  faststart: ["-movflags", "+faststart"],
  fragmented: ["-movflags", "+frag_keyframe+empty_moov"],
  "fragmented-default-base": ["-movflags", "+frag_keyframe+empty_moov+default_base_moof", "-frag_duration", "300000"],
  "fragmented-delay-moov": ["-movflags", "+frag_keyframe+delay_moov", "-frag_duration", "500000"],
  "fragmented-every-frame": ["-movflags", "+frag_every_frame+empty_moov"],
  "fragmented-separate": ["-movflags", "+empty_moov+separate_moof+default_base_moof", "-frag_duration", "200000"],
  "fragmented-size": ["-movflags", "+empty_moov", "-frag_size", "4000"],
  cmaf: ["-movflags", "+cmaf+frag_keyframe+empty_moov", "-frag_duration", "250000"],
  dash: ["-movflags", "+dash+frag_keyframe+global_sidx"],
  "skip-trailer": ["-movflags", "+frag_keyframe+empty_moov+skip_trailer"],
  "negative-offsets": ["-movflags", "+negative_cts_offsets"],
  "no-edit-list": ["-use_editlist", "0"],
  "timescale-1000": ["-movie_timescale", "48000"],
  "reserved-moov": ["-moov_size", "20000"],
  "rtp-hint": ["-movflags", "+rtphint"],
  ipod: ["-f", "ipod"],
  "3gp": ["-f", "3gp"],
  "psp-like-brand": ["-brand", "mp42"],
  mov: ["-f", "mov"],
  tags: ["-metadata", "title=A short recording", "-metadata", "artist=kiln", "-movflags", "+use_metadata_tags"],
}

const ffmpegAac = (): ReadonlyArray<Recipe> => [
  ...aacRates.flatMap((rate) =>
    ["16k", "32k", "64k", "128k", "256k"].flatMap((bitrate) =>
      some(1, `aac ${rate} ${bitrate}`, rate).map((source) =>
        made("ffmpeg-aac", bitrate, source, ffmpeg("mp4", "-c:a", "aac", "-b:a", bitrate)),
      ),
    ),
  ),
  ...Object.entries(layouts).flatMap(([settings, args]) =>
    [8000, 16_000, 44_100, 48_000].flatMap((rate) =>
      some(1, `aac ${settings} ${rate}`, rate).map((source) =>
        made("ffmpeg-aac", settings, source, ffmpeg("mp4", "-c:a", "aac", "-b:a", "48k", ...args)),
      ),
    ),
  ),
  ...["0.3", "1", "2"].flatMap((quality) =>
    [22_050, 44_100].flatMap((rate) =>
      some(1, `aac q ${quality} ${rate}`, rate).map((source) =>
        made("ffmpeg-aac", `vbr${quality}`, source, ffmpeg("mp4", "-c:a", "aac", "-q:a", quality)),
      ),
    ),
  ),
  ...["fast", "twoloop", "anmr"].flatMap((coder) =>
    some(1, `aac coder ${coder}`, 32_000).map((source) =>
      made(
        "ffmpeg-aac",
        `coder-${coder}`,
        source,
        ffmpeg("mp4", "-c:a", "aac", "-b:a", "64k", "-aac_coder", coder, "-strict", "-2"),
      ),
    ),
  ),
  ...["aac_main", "aac_ltp", "mpeg2_aac_low"].flatMap((profile) =>
    some(2, `aac profile ${profile}`, 44_100).map((source) =>
      made(
        "ffmpeg-aac",
        profile.replaceAll("_", "-"),
        source,
        ffmpeg("mp4", "-c:a", "aac", "-b:a", "96k", "-profile:a", profile, "-strict", "-2"),
      ),
    ),
  ),
  ...signals(4, "aac surround", { rate: 48_000, layout: "surround" }).map((source) =>
    made("ffmpeg-aac", "surround", source, ffmpeg("mp4", "-c:a", "aac", "-b:a", "256k")),
  ),
]

/** The other codecs that ffmpeg puts into MP4 and QuickTime. */
const codecs: ReadonlyArray<readonly [string, ReadonlyArray<string>, ReadonlyArray<number>]> = [
  ["alac", ["-c:a", "alac"], [8000, 16_000, 44_100, 48_000, 96_000]],
  ["alac-24", ["-c:a", "alac", "-sample_fmt", "s32p"], [16_000, 48_000]],
  ["flac", ["-c:a", "flac", "-strict", "-2"], [8000, 16_000, 44_100, 96_000]],
  ["opus", ["-c:a", "libopus", "-b:a", "24k", "-strict", "-2"], [8000, 16_000, 24_000, 48_000]],
  ["opus-60ms", ["-c:a", "libopus", "-b:a", "16k", "-frame_duration", "60", "-strict", "-2"], [16_000, 48_000]],
  ["opus-2.5ms", ["-c:a", "libopus", "-b:a", "64k", "-frame_duration", "2.5", "-strict", "-2"], [48_000]],
  ["mp3", ["-c:a", "libmp3lame", "-b:a", "64k"], [16_000, 24_000, 44_100, 48_000]],
  ["mp3-vbr", ["-c:a", "libmp3lame", "-q:a", "6"], [22_050, 44_100]],
  ["shine", ["-c:a", "libshine", "-b:a", "64k"], [44_100]],
  ["mp2", ["-c:a", "mp2", "-b:a", "128k"], [24_000, 44_100]],
  ["ac3", ["-c:a", "ac3", "-b:a", "96k"], [32_000, 44_100, 48_000]],
  ["eac3", ["-c:a", "eac3", "-b:a", "96k"], [48_000]],
  ["vorbis", ["-c:a", "libvorbis", "-q:a", "2"], [16_000, 44_100]],
]

const wrapped = (): ReadonlyArray<Recipe> =>
  codecs.flatMap(([codec, args, rates]) =>
    rates.flatMap((rate) =>
      // The description of AC-3 is not known before its first packet.
      (codec.includes("ac3")
        ? ["moov-last", "faststart", "fragmented-delay-moov"]
        : ["moov-last", "faststart", "fragmented", "fragmented-default-base"]
      ).flatMap((layout) =>
        some(1, `${codec} ${layout} ${rate}`, rate).map((source) =>
          made(
            `ffmpeg-${codec.split("-")[0]}-in-mp4`,
            [codec.split("-")[1] ?? "", layout].filter(Boolean).join("-"),
            source,
            ffmpeg("mp4", ...args, ...(layouts[layout] ?? [])),
          ),
        ),
      ),
    ),
  )

const quickTimeCodecs = [
  "alac",
  "aac",
  "pcm_s8",
  "pcm_u8",
  "pcm_s16le",
  "pcm_s16be",
  "pcm_s24le",
  "pcm_s24be",
  "pcm_s32le",
  "pcm_s32be",
  "pcm_f32le",
  "pcm_f32be",
  "pcm_f64be",
  "pcm_alaw",
  "pcm_mulaw",
  "adpcm_ima_qt",
  "libgsm",
  "libmp3lame",
  "ac3",
]

const quickTime = (): ReadonlyArray<Recipe> =>
  quickTimeCodecs.flatMap((codec) =>
    (codec === "libgsm" ? [8000] : codec === "ac3" ? [48_000] : [8000, 16_000, 44_100]).flatMap((rate) =>
      (["moov-last", "faststart", "fragmented"] as const).flatMap((layout) =>
        signals(1, `mov ${codec} ${rate} ${layout}`, codec === "libgsm" ? { rate, layout: "mono" } : { rate }).map(
          (source) =>
            made(
              `ffmpeg-${codec.replace("lib", "")}-in-mov`,
              layout,
              source,
              ffmpeg(
                "mov",
                "-c:a",
                codec,
                ...(codec.includes("mp3") ? ["-b:a", "48k"] : []),
                ...(layouts[layout] ?? []),
              ),
            ),
        ),
      ),
    ),
  )

const ff = (ext: string, line: string): Step =>
  run("ffmpeg", ext, ..."-v error -nostdin -y".split(" "), ...line.split(" ").filter((part) => part !== ""))

/** A test picture at 10 frames a second, as long as the audio. */
const picture = "-f lavfi -i testsrc=size=64x48:rate=10"

const videoCodecs: Readonly<Record<string, string>> = {
  mpeg4: "-c:v mpeg4 -b:v 60k",
  h264: "-c:v libx264 -preset veryfast -crf 40 -pix_fmt yuv420p",
  "h264-no-b": "-c:v libx264 -preset ultrafast -bf 0 -crf 40 -pix_fmt yuv420p",
  mjpeg: "-c:v mjpeg -q:v 20 -pix_fmt yuvj420p",
}

const withVideo = (): ReadonlyArray<Recipe> =>
  Object.entries(videoCodecs).flatMap(([video, args]) =>
    [
      ["aac", "-c:a aac -b:a 48k", "mp4"],
      ["opus", "-c:a libopus -b:a 24k -strict -2", "mp4"],
      ["mp3", "-c:a libmp3lame -b:a 64k", "mp4"],
      ["alac", "-c:a alac", "mov"],
      ["pcm", "-c:a pcm_s16le", "mov"],
    ].flatMap(([audio = "", audioArgs = "", ext = "mp4"]) =>
      (["moov-last", "faststart", "fragmented"] as const).flatMap((layout) =>
        signals(1, `video ${video} ${audio} ${layout}`, {
          rate: pick([16_000, 44_100, 48_000], `${video} ${audio} ${layout}`),
        }).map((source) =>
          made(
            `ffmpeg-video-${video}`,
            `${audio}-${layout}`,
            source,
            ff(
              ext,
              `-i $in ${picture} -shortest -map 0:a -map 1:v -t ${source.seconds} ${args} ${audioArgs} ${(layouts[layout] ?? []).join(" ")} $out`,
            ),
          ),
        ),
      ),
    ),
  )

const several = (): ReadonlyArray<Recipe> =>
  [16_000, 44_100, 48_000].flatMap((rate) => [
    ...signals(3, `two tracks ${rate}`, { rate, seconds: 2 }).map((source) =>
      made(
        "ffmpeg-tracks",
        "two-audio",
        source,
        ff("mp4", "-i $in -i $other.wav -map 0:a -map 1:a -c:a aac -b:a 48k -disposition:a:0 default $out"),
      ),
    ),
    ...signals(2, `alac and aac ${rate}`, { rate, seconds: 1 }).map((source) =>
      made("ffmpeg-tracks", "alac-and-aac", source, ff("mp4", "-i $in -map 0:a -map 0:a -c:a:0 aac -c:a:1 alac $out")),
    ),
    ...signals(2, `chapters ${rate}`, { rate, seconds: 1 }).map((source) =>
      made(
        "ffmpeg-tracks",
        "chapters",
        source,
        ff("m4a", "-i $in -i $chapters.txt -map 0:a -map_metadata 1 -map_chapters 1 -c:a aac -b:a 48k $out"),
      ),
    ),
    ...signals(2, `subtitle ${rate}`, { rate, seconds: 1 }).map((source) =>
      made(
        "ffmpeg-tracks",
        "timed-text",
        source,
        shell(
          ["ffmpeg"],
          "mp4",
          `printf '1\\n00:00:00,100 --> 00:00:00,900\\nHello\\n' > "$3/t.srt" && ffmpeg -v error -nostdin -y -i "$1" -i "$3/t.srt" -map 0:a -map 1 -c:a aac -b:a 48k -c:s mov_text "$2"`,
          "$work",
        ),
      ),
    ),
    ...(["cover.png", "cover.jpg", "large-cover.png", "large-cover.jpg"] as const).flatMap((cover) =>
      signals(1, `cover ${cover} ${rate}`, { rate }).flatMap((source) => [
        made(
          "ffmpeg-cover",
          cover.replace(".", "-"),
          source,
          ff(
            "m4a",
            `-i $in -i $${cover} -map 0:a -map 1:v -c:v copy -disposition:v attached_pic -c:a aac -b:a 48k $out`,
          ),
        ),
        made(
          "ffmpeg-cover",
          `${cover.replace(".", "-")}-alac-faststart`,
          source,
          ff(
            "m4a",
            `-i $in -i $${cover} -map 0:a -map 1:v -c:v copy -disposition:v attached_pic -c:a alac -movflags +faststart $out`,
          ),
        ),
      ]),
    ),
    // Cuts without encoding leave packets that an edit list hides.
    ...["0.3", "0.77", "1"].flatMap((start) =>
      signals(2, `cut ${start} ${rate}`, { rate, seconds: 3 }).flatMap((source) => [
        {
          ...made(
            "ffmpeg-cut",
            `aac-from-${start}`,
            source,
            ffmpeg("m4a", "-c:a", "aac", "-b:a", "48k"),
            ff("m4a", `-ss ${start} -i $in -c copy $out`),
          ),
          seconds: undefined,
        },
        {
          ...made(
            "ffmpeg-cut",
            `aac-to-${start}`,
            source,
            ffmpeg("m4a", "-c:a", "aac", "-b:a", "48k"),
            ff("m4a", `-i $in -t ${start} -c copy $out`),
          ),
          seconds: undefined,
        },
      ]),
    ),
    ...signals(1, `cut alac ${rate}`, { rate, seconds: 3 }).map((source) => ({
      ...made(
        "ffmpeg-cut",
        "alac-from-1",
        source,
        ffmpeg("m4a", "-c:a", "alac"),
        ff("m4a", "-ss 1 -i $in -c copy $out"),
      ),
      seconds: undefined,
    })),
    ...signals(2, `delayed ${rate}`, { rate, seconds: 1.5 }).map((source) =>
      made(
        "ffmpeg-cut",
        "delayed-start",
        source,
        ff("mp4", `-itsoffset 0.5 -i $in ${picture} -map 0:a -map 1:v -t 2 -c:v mpeg4 -c:a aac -b:a 48k $out`),
      ),
    ),
  ])

const pipes = (): ReadonlyArray<Recipe> =>
  [16_000, 44_100].flatMap((rate) =>
    [
      ["aac", "-c:a aac -b:a 32k"],
      ["opus", "-c:a libopus -b:a 24k -strict -2"],
      ["flac", "-c:a flac -strict -2"],
      ["alac", "-c:a alac"],
    ].flatMap(([codec = "", args = ""]) =>
      signals(2, `mp4 pipe ${codec} ${rate}`, { rate }).map((source) =>
        made(
          `ffmpeg-${codec}-in-mp4`,
          "pipe",
          source,
          ffmpegPipe(
            "mp4",
            "mp4",
            ...args.split(" "),
            "-movflags",
            "+frag_keyframe+empty_moov+default_base_moof",
            "-frag_duration",
            "500000",
          ),
        ),
      ),
    ),
  )

const gstEncoders: Readonly<Record<string, readonly [string, ReadonlyArray<number>, ReadonlyArray<string>]>> = {
  avenc_aac: ["avenc_aac bitrate=48000 ! aacparse", [8000, 16_000, 44_100, 48_000], ["mp4mux", "qtmux", "3gppmux"]],
  voaacenc: ["voaacenc bitrate=64000 ! aacparse", [16_000, 32_000, 44_100, 48_000], ["mp4mux", "qtmux"]],
  alac: ["avenc_alac", [16_000, 44_100], ["mp4mux", "qtmux"]],
  lamemp3enc: ["lamemp3enc ! mpegaudioparse", [22_050, 44_100], ["mp4mux", "qtmux"]],
  opusenc: ["audio/x-raw,rate=48000 ! opusenc bitrate=24000", [16_000, 48_000], ["mp4mux", "qtmux"]],
  ac3: ["avenc_ac3 ! ac3parse", [48_000], ["mp4mux"]],
  s16: ["audio/x-raw,format=S16LE", [8000, 44_100], ["qtmux"]],
  s24: ["audio/x-raw,format=S24BE", [16_000, 48_000], ["qtmux"]],
  mulaw: ["mulawenc", [8000], ["qtmux"]],
  alaw: ["alawenc", [8000, 16_000], ["qtmux"]],
}

const muxOptions: Readonly<Record<string, string>> = {
  "moov-last": "",
  faststart: "faststart=true",
  fragmented: "fragment-duration=300 streamable=true",
  "fragmented-then-finalized": "fragment-duration=300 fragment-mode=first-moov-then-finalise",
}

const gstreamerMp4 = (): ReadonlyArray<Recipe> =>
  Object.entries(gstEncoders).flatMap(([encoder, [pipeline, rates, muxers]]) =>
    rates.flatMap((rate) =>
      muxers.flatMap((muxer) =>
        Object.entries(muxOptions).flatMap(([layout, muxArgs]) =>
          signals(1, `gst ${encoder} ${muxer} ${layout} ${rate}`, { rate }).map((source) =>
            made(
              `gstreamer-${encoder}-${muxer}`,
              layout,
              source,
              gstreamer("mp4", `${pipeline} ! ${muxer} ${muxArgs}`),
            ),
          ),
        ),
      ),
    ),
  )

const otherMuxers = (): ReadonlyArray<Recipe> => [
  ...[16_000, 44_100, 48_000].flatMap((rate) => [
    ...signals(2, `vlc mp4 ${rate}`, { rate }).flatMap((source) => [
      made(
        "vlc-mp4",
        "aac",
        source,
        vlc("mp4", `acodec=mp4a,ab=64,channels=${source.layout === "mono" ? 1 : 2},samplerate=${rate}`, "mp4"),
      ),
    ]),
    ...signals(2, `tagged mp4 ${rate}`, { rate }).flatMap((source) => [
      made(
        "atomicparsley",
        "title",
        source,
        aac,
        run("AtomicParsley", "m4a", "$in", "--title", "A short recording", "--artist", "kiln", "-o", "$out"),
      ),
      made(
        "atomicparsley",
        "cover",
        source,
        aac,
        run("AtomicParsley", "m4a", "$in", "--artwork", "$large-cover.jpg", "-o", "$out"),
      ),
      made(
        "mutagen-mp4",
        "title",
        source,
        aac,
        shell(
          ["python:mutagen"],
          "m4a",
          `cp "$1" "$2" && /usr/bin/python3 -c 'import mutagen.mp4, sys; f = mutagen.mp4.MP4(sys.argv[1]); f["\\xa9nam"] = "A short recording"; f.save()' "$2"`,
        ),
      ),
    ]),
    ...signals(2, `mencoder mp4 ${rate}`, { rate }).map((source) =>
      made(
        "mencoder-mp4",
        "mp3",
        source,
        ff("avi", `-i $in ${picture} -shortest -map 0:a -map 1:v -t ${source.seconds} -c:v mpeg4 -c:a pcm_s16le $out`),
        run(
          "mencoder",
          "mp4",
          ..."-really-quiet $in -ovc copy -oac mp3lame -lameopts cbr:br=64 -of lavf -lavfopts format=mp4 -o $out".split(
            " ",
          ),
        ),
      ),
    ),
    ...signals(2, `handbrake ${rate}`, { rate }).map((source, index) =>
      made(
        "handbrake-mp4",
        ["av_aac", "mp3"][index] ?? "",
        source,
        ff("avi", `-i $in ${picture} -shortest -map 0:a -map 1:v -t ${source.seconds} -c:v mpeg4 -c:a pcm_s16le $out`),
        shell(
          ["HandBrakeCLI"],
          "mp4",
          `HandBrakeCLI -i "$1" -o "$2" -f av_mp4 -e x264 --encoder-preset ultrafast -q 40 -E ${["av_aac", "mp3"][index]} -B 64 --min-duration 0 >/dev/null 2>&1 < /dev/null`,
        ),
      ),
    ),
  ]),
  ...signals(6, "bytes behind", { rate: 44_100 }).flatMap((source, index) => {
    const [settings = "", bytes = Buffer.alloc(0)] =
      (
        [
          ["free-box", box("free", Buffer.alloc(3000))],
          ["uuid-box", box("uuid", noise(2000, 8))],
          ["skip-box", box("skip", noise(100, 8))],
          ["second-empty-mdat", box("mdat")],
          ["zeros-behind", Buffer.alloc(8)],
          ["large-free-box", box("free", noise(300_000, 5))],
        ] as const
      )[index] ?? []
    return [made("ffmpeg-aac", settings, source, aac, edit(settings, behind(bytes)))]
  }),
]

const aac = ffmpeg("m4a", "-c:a", "aac", "-b:a", "48k")

/** Encoders of their own build of ffmpeg, from npm. */
const oldFfmpeg = (): ReadonlyArray<Recipe> =>
  [16_000, 44_100, 48_000].flatMap((rate) =>
    (
      [
        ["aac", "-c:a aac -b:a 48k"],
        ["aac-faststart", "-c:a aac -b:a 96k -movflags +faststart"],
        ["aac-fragmented", "-c:a aac -b:a 48k -movflags +frag_keyframe+empty_moov"],
        ["alac", "-c:a alac"],
      ] as const
    ).flatMap(([settings, args]) =>
      signals(2, `ffmpeg 2018 ${settings} ${rate}`, { rate }).map((source) =>
        made(
          "npm-ffmpeg-2018",
          settings,
          source,
          shell(
            ["npm:@ffmpeg-installer/linux-x64"],
            "m4a",
            `"$3/node_modules/@ffmpeg-installer/linux-x64/ffmpeg" -v error -nostdin -y -i "$1" ${args} "$2"`,
            "$npm",
          ),
        ),
      ),
    ),
  )

/** Returns true for what ffmpeg 5.1 does not decode. */
const isUndecodable = (codec: string, container: string): boolean =>
  (container.startsWith("mp4") && (codec === "ulaw" || codec === "pcm-f32")) ||
  (container.endsWith("fragmented") && (codec === "flac" || codec === "pcm-s24"))

const mediabunny = (): ReadonlyArray<Recipe> =>
  (["mp4", "mp4-fast-start", "mp4-fragmented", "mov", "mov-fragmented"] as const).flatMap(
    (container: MediabunnyContainer) =>
      (["aac", "mp3", "opus", "flac", "pcm-s16", "pcm-s24", "pcm-f32", "ulaw"] as const).flatMap((codec) =>
        (isUndecodable(codec, container) ? [] : codec === "opus" ? [48_000] : [16_000, 44_100]).flatMap((rate) =>
          signals(1, `mediabunny ${container} ${codec} ${rate}`, { rate }).map((source) =>
            made(
              `mediabunny-${codec}`,
              container,
              source,
              encodeWithMediabunny(codec, container, ["aac", "mp3", "opus"].includes(codec) ? 64 : undefined),
            ),
          ),
        ),
      ),
  )

const npmMuxers = (): ReadonlyArray<Recipe> =>
  [16_000, 24_000, 44_100, 48_000].flatMap((rate) =>
    signals(2, `npm muxers ${rate}`, { rate }).flatMap((source) => [
      made("npm-mp4box", "fragments-of-10", source, aac, fragmentWithMp4box(10)),
      made("npm-mp4box", "one-fragment", source, aac, fragmentWithMp4box(1000)),
      made("npm-mp4-muxer", "fast-start", source, aac, muxWithMp4Muxer("in-memory")),
      made("npm-mp4-muxer", "fragmented", source, aac, muxWithMp4Muxer("fragmented")),
      made("npm-mp4-muxer", "moov-last", source, aac, muxWithMp4Muxer(false)),
      made("npm-mux.js", "from-ts", source, ffmpeg("ts", "-c:a", "aac", "-b:a", "48k", "-f", "mpegts"), muxWithMuxJs()),
      made("mediabunny-remux", "mp4-fragmented", source, aac, remuxWithMediabunny("mp4-fragmented")),
      made("mediabunny-remux", "mp4-fast-start", source, aac, remuxWithMediabunny("mp4-fast-start")),
      made(
        "mediabunny-remux",
        "mp3-in-mov",
        source,
        ffmpeg("mp3", "-c:a", "libmp3lame", "-b:a", "64k"),
        remuxWithMediabunny("mov"),
      ),
    ]),
  )

export const mp4Recipes: ReadonlyArray<Recipe> = [
  ...ffmpegAac(),
  ...wrapped(),
  ...quickTime(),
  ...withVideo(),
  ...several(),
  ...pipes(),
  ...gstreamerMp4(),
  ...otherMuxers(),
  ...oldFfmpeg(),
  ...mediabunny(),
  ...npmMuxers(),
]
