import {
  apev2,
  before,
  behind,
  id3v1,
  id3v2,
  lyrics3,
  noise,
  noisePng,
  wavChunks,
  zeroXing,
  zeroXingFrames,
} from "./edits.ts"
import { encodeWithLamejs, encodeWithMediabunny, encodeWithWasmEncoders } from "./npmEncoders.ts"
import {
  edit,
  ffmpeg,
  ffmpegPipe,
  gstreamer,
  pick,
  pipe,
  python,
  type Recipe,
  recipe,
  run,
  shell,
  signal,
  signals,
  type Step,
  vlc,
} from "./Recipe.ts"
import type { Layout, Signal } from "./signals.ts"

const mpeg1 = [32_000, 44_100, 48_000]
const mpeg2 = [16_000, 22_050, 24_000]
const mpeg25 = [8000, 11_025, 12_000]
const rates = [...mpeg1, ...mpeg2, ...mpeg25]

const bitratesOf = (rate: number): ReadonlyArray<number> => {
  if (rate >= 32_000) return [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320]
  if (rate >= 16_000) return [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160]
  return [8, 16, 24, 32, 40, 48, 56, 64]
}

const made = (group: string, settings: string, source: Signal, ...steps: ReadonlyArray<Step>): Recipe =>
  recipe({ format: "mp3", group, settings, source, steps })

const lame = (...args: ReadonlyArray<string>): Step => run("lame", "mp3", "--silent", ...args, "$in", "$out")
const khz = (rate: number): string => String(rate / 1000)

/** Every bit rate at every sample rate, in alternating stereo modes. */
const lameConstant = (): ReadonlyArray<Recipe> =>
  rates.flatMap((rate) =>
    bitratesOf(rate).flatMap((bitrate) => {
      const settings = `cbr${bitrate}`
      const source = signal(`lame ${settings} ${rate}`, { rate })
      const mode = source.layout === "mono" ? "m" : pick(["j", "s", "f", "d"], `mode ${settings} ${rate}`)
      return [
        made(
          "lame",
          `${settings}-mode-${mode}`,
          source,
          lame("--resample", khz(rate), "-b", String(bitrate), "-m", mode),
        ),
      ]
    }),
  )

const lameVariable = (): ReadonlyArray<Recipe> =>
  [44_100, 48_000, 24_000, 16_000, 11_025, 8000].flatMap((rate) =>
    Array.from({ length: 10 }, (_, quality) => {
      const old = (quality + rate) % 3 === 0 ? ["--vbr-old"] : []
      const source = signal(`lame V${quality} ${rate}`, { rate })
      return made("lame", `vbr${quality}${old.length > 0 ? "-old" : ""}`, source, lame("-V", String(quality), ...old))
    }),
  )

const lameAverage = (): ReadonlyArray<Recipe> =>
  [8, 14, 24, 37, 56, 77, 96, 128, 145, 190, 250, 310].flatMap((average) =>
    signals(3, `lame abr ${average}`, { rate: average < 40 ? 16_000 : 44_100 }).map((source) =>
      made("lame", `abr${average}`, source, lame("--abr", String(average))),
    ),
  )

const lameOptions: Readonly<Record<string, ReadonlyArray<string>>> = {
  crc: ["-p", "-b", "96"],
  "no-reservoir": ["--nores", "-b", "64"],
  "no-tag": ["-t", "-b", "128"],
  "no-tag-vbr": ["-t", "-V", "4"],
  strict: ["--strictly-enforce-ISO", "-b", "320"],
  "free-format-64": ["--freeformat", "-b", "64"],
  "free-format-150": ["--freeformat", "-b", "150"],
  "free-format-400": ["--freeformat", "-b", "400"],
  "preset-insane": ["--preset", "insane"],
  "preset-phone": ["--preset", "phone"],
  "preset-voice": ["--preset", "voice"],
  fast: ["-f", "-b", "128"],
  "minimum-bitrate": ["-V", "5", "-b", "64", "-F"],
  copyright: ["-c", "-o", "-e", "5", "-b", "112"],
  "clip-detect": ["--clipdetect", "-b", "128"],
  "no-replaygain": ["--noreplaygain", "-V", "6"],
  id3v2: ["--add-id3v2", "--tt", "A short recording", "--ta", "kiln", "-b", "64"],
  "id3v1-only": ["--id3v1-only", "--tt", "A short recording", "-b", "64"],
  "id3v2-only-padded": ["--id3v2-only", "--tt", "A short recording", "--pad-id3v2-size", "5000", "-b", "64"],
  "id3v2-utf16": ["--id3v2-utf16", "--tt", "Über Tage", "--tc", "naïve", "-b", "64"],
  "cover-png": ["--ti", "$cover.png", "--tt", "A short recording", "-b", "64"],
  "cover-jpg": ["--ti", "$cover.jpg", "--tt", "A short recording", "-V", "7"],
}

const lameExtras = (): ReadonlyArray<Recipe> =>
  Object.entries(lameOptions).flatMap(([settings, args]) =>
    signals(settings.startsWith("free") ? 1 : 3, `lame ${settings}`, {
      rate: pick([44_100, 48_000, 32_000], settings),
    }).map((source) => made("lame", settings, source, lame(...args))),
  )

/** The encoder cannot complete its tag when it writes to a pipe. */
const lamePipes = (): ReadonlyArray<Recipe> =>
  [
    ["-b", "128"],
    ["-V", "3"],
    ["--abr", "80"],
    ["-b", "32"],
  ].flatMap((args) =>
    [44_100, 16_000].flatMap((rate) =>
      signals(2, `lame pipe ${args.join(" ")} ${rate}`, { rate }).map((source) =>
        made("lame", `pipe${args.join("")}`, source, pipe("lame", "mp3", "--silent", ...args, "$stdin", "-", "-")),
      ),
    ),
  )

const ffmpegOptions: Readonly<Record<string, ReadonlyArray<string>>> = {
  cbr128: ["-b:a", "128k"],
  cbr32: ["-b:a", "32k"],
  cbr320: ["-b:a", "320k"],
  q0: ["-q:a", "0"],
  q4: ["-q:a", "4"],
  q9: ["-q:a", "9"],
  abr: ["-b:a", "72k", "-abr", "1"],
  "no-joint-stereo": ["-b:a", "96k", "-joint_stereo", "0"],
  "no-reservoir": ["-b:a", "96k", "-reservoir", "0"],
  "no-xing": ["-q:a", "5", "-write_xing", "0"],
  "no-xing-no-id3": ["-b:a", "64k", "-write_xing", "0", "-id3v2_version", "0"],
  "id3v2.3": ["-b:a", "64k", "-id3v2_version", "3", "-metadata", "title=A short recording"],
  "id3v2.4": ["-b:a", "64k", "-id3v2_version", "4", "-metadata", "title=Über Tage", "-metadata", "lyrics=none"],
  id3v1: ["-b:a", "64k", "-write_id3v1", "1", "-id3v2_version", "0", "-metadata", "title=A short recording"],
  "id3v1-and-id3v2": ["-q:a", "7", "-write_id3v1", "1", "-metadata", "title=A short recording"],
}

const ffmpegLame = (): ReadonlyArray<Recipe> =>
  Object.entries(ffmpegOptions).flatMap(([settings, args]) =>
    [44_100, 24_000, 8000].flatMap((rate) =>
      signals(2, `ffmpeg mp3 ${settings} ${rate}`, { rate }).map((source) =>
        made("ffmpeg-libmp3lame", settings, source, ffmpeg("mp3", "-c:a", "libmp3lame", ...args)),
      ),
    ),
  )

const ffmpegCovers = (): ReadonlyArray<Recipe> =>
  (["cover.png", "cover.jpg", "large-cover.png", "large-cover.jpg"] as const).flatMap((cover) =>
    ["3", "4"].flatMap((version) =>
      signals(2, `ffmpeg cover ${cover} ${version}`, { rate: 44_100 }).map((source) =>
        made(
          "ffmpeg-libmp3lame",
          `${cover.replace(".", "-")}-id3v2.${version}`,
          source,
          ffmpeg(
            "mp3",
            ..."-i $COVER -map 0:a -map 1:v -c:v copy -c:a libmp3lame -q:a 5 -id3v2_version"
              .split(" ")
              .map((arg) => (arg === "$COVER" ? `$${cover}` : arg)),
            version,
            "-disposition:v",
            "attached_pic",
          ),
        ),
      ),
    ),
  )

const ffmpegPipes = (): ReadonlyArray<Recipe> =>
  [
    ["-b:a", "128k"],
    ["-q:a", "2"],
    ["-q:a", "8"],
    ["-b:a", "48k", "-abr", "1"],
  ].flatMap((args) =>
    [44_100, 22_050].flatMap((rate) =>
      signals(2, `ffmpeg pipe ${args.join(" ")} ${rate}`, { rate }).map((source) =>
        made(
          "ffmpeg-libmp3lame",
          `pipe${args.join("").replaceAll(":a", "")}`,
          source,
          ffmpegPipe("mp3", "mp3", "-c:a", "libmp3lame", ...args),
        ),
      ),
    ),
  )

/** Bit rates that Shine supports at every sample rate. It writes free format for some others. */
const shineBitrates = (rate: number): ReadonlyArray<number> =>
  rate >= 44_100
    ? [32, 48, 64, 96, 128, 192, 256]
    : rate >= 32_000
      ? [32, 40, 64, 80, 128, 160]
      : rate >= 16_000
        ? [32, 40, 64, 80]
        : [32, 40]

/** Shine writes no tag, no reservoir, and one bit rate. */
const shine = (): ReadonlyArray<Recipe> => [
  ...rates.flatMap((rate) =>
    shineBitrates(rate).flatMap((bitrate) => {
      const source = signal(`shineenc ${bitrate} ${rate}`, { rate })
      const mode = source.layout === "mono" ? [] : pick([[], ["-j"], ["-d"]], `shineenc mode ${bitrate} ${rate}`)
      return made(
        "shineenc",
        `cbr${bitrate}${mode.join("")}`,
        source,
        run("shineenc", "mp3", "-q", "-b", String(bitrate), ...mode, "$in", "$out"),
      )
    }),
  ),
  ...rates.flatMap((rate) =>
    signals(3, `libshine ${rate}`, { rate }).map((source) => {
      const bitrate = pick(shineBitrates(rate), `libshine ${rate} ${source.kind}`)
      return made("ffmpeg-libshine", `cbr${bitrate}`, source, ffmpeg("mp3", "-c:a", "libshine", "-b:a", `${bitrate}k`))
    }),
  ),
]

const layer2Rates = [16_000, 22_050, 24_000, 32_000, 44_100, 48_000]
const layer2Bitrates = (rate: number, layout: Layout): ReadonlyArray<number> => {
  if (rate < 32_000) return [32, 48, 64, 96, 128, 160]
  return layout === "mono" ? [32, 48, 64, 96, 128, 192] : [64, 96, 128, 192, 256, 320, 384]
}

/** MPEG Layer II, which players accept under the name of MP3. */
const layer2 = (): ReadonlyArray<Recipe> =>
  layer2Rates.flatMap((rate) =>
    signals(3, `layer 2 ${rate}`, { rate }).flatMap((source) => {
      const of = (encoder: string): string =>
        String(pick(layer2Bitrates(rate, source.layout), `${encoder} ${rate} ${source.kind}`))
      const mode = source.layout === "mono" ? "m" : pick(["s", "j", "d"], `twolame ${rate} ${source.kind}`)
      return [
        made(
          "twolame",
          `cbr${of("twolame")}-mode-${mode}`,
          source,
          run("twolame", "mp2", "--quiet", "-m", mode, "-b", of("twolame"), "$in", "$out"),
        ),
        made(
          "twolame",
          `vbr-crc-mode-${mode}`,
          source,
          run("twolame", "mp2", "--quiet", "-m", mode, "-v", "-p", "$in", "$out"),
        ),
        made("ffmpeg-mp2", `cbr${of("mp2")}`, source, ffmpeg("mp2", "-c:a", "mp2", "-b:a", `${of("mp2")}k`)),
        made(
          "ffmpeg-mp2fixed",
          `cbr${of("mp2fixed")}`,
          source,
          ffmpeg("mp2", "-c:a", "mp2fixed", "-b:a", `${of("mp2fixed")}k`),
        ),
        made(
          "ffmpeg-libtwolame",
          `cbr${of("libtwolame")}`,
          source,
          ffmpeg("mp2", "-c:a", "libtwolame", "-b:a", `${of("libtwolame")}k`),
        ),
        ...(rate >= 32_000
          ? [
              made(
                "mp2enc",
                `cbr${of("mp2enc")}`,
                source,
                shell(
                  ["mp2enc"],
                  "mp2",
                  `mp2enc -v 0 ${source.layout === "mono" ? "-m" : "-s"} -r ${rate} -b ${of("mp2enc")} -o "$2" < "$1"`,
                ),
              ),
            ]
          : []),
      ]
    }),
  )

const gstreamerMp3 = (): ReadonlyArray<Recipe> => [
  ...[44_100, 48_000, 22_050, 16_000, 8000].flatMap((rate) =>
    (
      [
        ["cbr64", "lamemp3enc target=bitrate cbr=true bitrate=64"],
        ["abr48", "lamemp3enc target=bitrate bitrate=48"],
        ["vbr2", "lamemp3enc target=quality quality=2"],
        ["vbr7-xingmux", "lamemp3enc target=quality quality=7 ! xingmux"],
        ["id3v2mux", "lamemp3enc target=quality quality=5 ! id3v2mux"],
        ["id3mux", "lamemp3enc target=bitrate cbr=true bitrate=32 ! id3mux write-v1=true"],
        ["apev2mux", "lamemp3enc target=bitrate cbr=true bitrate=32 ! apev2mux"],
      ] as const
    ).flatMap(([settings, pipeline]) =>
      signals(1, `gst mp3 ${settings} ${rate}`, { rate }).map((source) =>
        made("gstreamer-lamemp3enc", settings, source, gstreamer("mp3", pipeline)),
      ),
    ),
  ),
  ...[44_100, 48_000, 32_000].flatMap((rate) =>
    signals(2, `gst mp2 ${rate}`, { rate }).map((source) =>
      made("gstreamer-twolamemp2enc", "cbr192", source, gstreamer("mp2", "twolamemp2enc bitrate=192")),
    ),
  ),
]

const otherPrograms = (): ReadonlyArray<Recipe> => [
  ...[44_100, 48_000, 24_000, 16_000, 8000].flatMap((rate) =>
    (
      [
        ["cbr64", "64.0"],
        ["vbr4", "-4.2"],
      ] as const
    ).flatMap(([settings, compression]) =>
      signals(2, `sox ${settings} ${rate}`, { rate }).map((source) =>
        made("sox-mp3", settings, source, run("sox", "mp3", "$in", "-C", compression, "$out")),
      ),
    ),
  ),
  ...[44_100, 48_000, 22_050, 16_000].flatMap((rate) =>
    signals(2, `mencoder ${rate}`, { rate }).flatMap((source) =>
      (
        [
          ["cbr64", "cbr:br=64"],
          ["abr96", "abr:br=96"],
          ["vbr", "vbr=2:q=5"],
        ] as const
      ).map(([settings, options]) =>
        made("mencoder-mp3lame", settings, source, ...mencoder("mp3", "mp3lame", "-lameopts", options)),
      ),
    ),
  ),
  ...[44_100, 48_000, 32_000].flatMap((rate) =>
    signals(2, `vlc shine ${rate}`, { rate }).map((source) =>
      made(
        "vlc-shine",
        "cbr128",
        source,
        vlc("mp3", `acodec=mp3,ab=128,channels=${source.layout === "mono" ? 1 : 2},samplerate=${rate}`, "dummy"),
      ),
    ),
  ),
  ...[44_100, 48_000, 32_000].flatMap((rate) =>
    signals(2, `vlc twolame ${rate}`, { rate, layout: "stereo" }).map((source) =>
      made("vlc-twolame", "cbr192", source, vlc("mp2", `acodec=mpga,ab=192,channels=2,samplerate=${rate}`, "dummy")),
    ),
  ),
  ...[44_100, 48_000, 16_000].flatMap((rate) =>
    signals(2, `libsndfile mp3 ${rate}`, { rate }).map((source) =>
      made("libsndfile-mp3", "default", source, python("soundfile", "mp3", soundfile)),
    ),
  ),
]

const soundfile =
  "import soundfile, sys; d, r = soundfile.read(sys.argv[1]); soundfile.write(sys.argv[2], d, r, format='MP3', subtype='MPEG_LAYER_III')"

/** MEncoder needs a video; it is dropped when only the raw audio is written. */
const mencoder = (ext: string, codec: string, ...options: ReadonlyArray<string>): ReadonlyArray<Step> => [
  run(
    "ffmpeg",
    "avi",
    ..."-v error -nostdin -y -f lavfi -i color=size=16x16:rate=25 -i $in -shortest -c:v rawvideo -c:a pcm_s16le $out".split(
      " ",
    ),
  ),
  run(
    "mencoder",
    ext,
    "-really-quiet",
    "$in",
    "-ovc",
    "copy",
    "-oac",
    codec,
    ...options,
    "-of",
    "rawaudio",
    "-o",
    "$out",
  ),
]

const npmMp3 = (): ReadonlyArray<Recipe> =>
  rates.flatMap((rate) =>
    signals(4, `npm mp3 ${rate}`, { rate }).flatMap((source, index) => {
      const bitrate = pick(
        bitratesOf(rate)
          .slice(1)
          .filter((kbps) => kbps !== 56 && kbps !== 144),
        `npm ${rate} ${index}`,
      )
      return [
        made("lamejs", `cbr${bitrate}`, source, encodeWithLamejs(bitrate)),
        made(
          "wasm-media-encoders",
          index % 2 === 0 ? `cbr${bitrate}` : `vbr${index * 2}`,
          source,
          encodeWithWasmEncoders(index % 2 === 0 ? { bitrate } : { vbrQuality: index * 2 }),
        ),
        ...(rate >= 16_000
          ? [made("mediabunny-mp3-encoder", `cbr${bitrate}`, source, encodeWithMediabunny("mp3", "mp3", bitrate))]
          : []),
      ]
    }),
  )

const png = noisePng(320)

/** What taggers and editors do to the bytes around the frames. */
const changes: Readonly<Record<string, (file: Buffer) => Buffer>> = {
  id3v1: behind(id3v1()),
  "lyrics3-and-id3v1": behind(Buffer.concat([lyrics3(), id3v1()])),
  "id3v2.2": before(id3v2({ version: 2 })),
  "id3v2.2-cover": before(id3v2({ version: 2, picture: noisePng(60) })),
  "id3v2.3": before(id3v2({ version: 3 })),
  "id3v2.3-padded": before(id3v2({ version: 3, padding: 2048 })),
  "id3v2.3-extended-header": before(id3v2({ version: 3, hasExtendedHeader: true })),
  "id3v2.3-unsynchronized": before(id3v2({ version: 3, isUnsynchronized: true, picture: noisePng(50) })),
  "id3v2.4": before(id3v2({ version: 4 })),
  "id3v2.4-footer": before(id3v2({ version: 4, hasFooter: true })),
  "id3v2.4-extended-header": before(id3v2({ version: 4, hasExtendedHeader: true })),
  "id3v2.4-plain-frame-sizes": before(id3v2({ version: 4, hasPlainFrameSizes: true, picture: noisePng(40) })),
  "id3v2-size-too-small": before(id3v2({ version: 3, padding: 600, sizeError: -600 })),
  "id3v2-size-too-small-by-10": before(id3v2({ version: 3, padding: 10, sizeError: -10 })),
  "id3v2-size-too-large-by-10": before(id3v2({ version: 4, sizeError: 10 })),
  "id3v2-size-not-synchsafe": before(id3v2({ version: 3, padding: 700, hasPlainSize: true })),
  "id3v2-size-not-synchsafe-but-small": before(id3v2({ version: 3, padding: 20, hasPlainSize: true })),
  "id3v2-large-cover-png": before(id3v2({ version: 3, picture: png })),
  "two-id3v2": before(Buffer.concat([id3v2({ version: 4 }), id3v2({ version: 3, padding: 100 })])),
  "id3v2-twice-with-covers": before(
    Buffer.concat([id3v2({ picture: noisePng(90) }), id3v2({ version: 4, picture: noisePng(70) })]),
  ),
  "id3v2-then-zeros": before(Buffer.concat([id3v2(), Buffer.alloc(3000)])),
  "zeros-before": before(Buffer.alloc(1152)),
  "id3v2-behind": behind(id3v2({ version: 4, hasFooter: true })),
  "id3v2-large-behind": behind(id3v2({ version: 3, picture: png })),
  "apev2-behind": behind(apev2(true)),
  "apev2-footer-only-behind": behind(apev2(false)),
  "apev2-and-id3v1-behind": behind(Buffer.concat([apev2(true), id3v1()])),
  "apev2-large-behind": behind(apev2(true, png)),
  "apev2-before": before(apev2(true)),
  "id3v2-before-and-apev2-and-id3v1-behind": (file) =>
    Buffer.concat([id3v2({ version: 4, padding: 100 }), file, apev2(true), id3v1()]),
  "zeros-behind": behind(Buffer.alloc(5000)),
  "zeros-far-behind": behind(Buffer.alloc(200_000)),
  "text-behind": behind(Buffer.from("\r\n--boundary--\r\n")),
  "half-frame-behind": (file) => Buffer.concat([file, file.subarray(-200, -20)]),
  "noise-behind": behind(noise(3000, 21)),
  "zeroed-xing": zeroXing,
  "zero-frames-in-xing": zeroXingFrames,
}

const tagged = (): ReadonlyArray<Recipe> =>
  Object.entries(changes).flatMap(([settings, change]) => [
    ...signals(3, `tagged lame ${settings}`, { rate: 44_100 }).map((source, index) =>
      made(
        "lame-tagged",
        settings,
        source,
        lame(
          ...([
            ["-b", "64"],
            ["-V", "4"],
            ["-b", "128", "-t"],
          ][index] ?? []),
        ),
        edit(settings, change),
      ),
    ),
    ...signals(1, `tagged lame low ${settings}`, { rate: 16_000 }).map((source) =>
      made("lame-tagged", settings, source, lame("-b", "24"), edit(settings, change)),
    ),
    ...(settings.includes("xing")
      ? []
      : signals(2, `tagged shine ${settings}`, { rate: 44_100 }).map((source) =>
          made(
            "shineenc-tagged",
            settings,
            source,
            run("shineenc", "mp3", "-q", "-b", "96", "$in", "$out"),
            edit(settings, change),
          ),
        )),
  ])

/** Programs that change an existing MP3. The shell copies the file first. */
const taggers: Readonly<Record<string, readonly [string, string]>> = {
  eyeD3: ["eyeD3", `eyeD3 -Q --no-color -t Title -a kiln --to-v2.4 "$2" >/dev/null`],
  "eyeD3-cover": ["eyeD3", `eyeD3 -Q --no-color -t Title --add-image "$3:FRONT_COVER" --to-v2.3 "$2" >/dev/null`],
  id3v2: ["id3v2", `id3v2 -t Title -a kiln "$2"`],
  mp3gain: ["mp3gain", `mp3gain -q -r -c "$2" >/dev/null 2>&1`],
  "mp3gain-id3": ["mp3gain", `mp3gain -q -s i -r -c "$2" >/dev/null 2>&1`],
}

const retagged = (): ReadonlyArray<Recipe> =>
  Object.entries(taggers).flatMap(([settings, [tool, script]]) =>
    signals(3, `tagger ${settings}`, { rate: 44_100 }).map((source) =>
      made(
        "lame-retagged",
        settings,
        source,
        lame("-V", "5"),
        shell([tool], "mp3", `cp "$1" "$2" && ${script}`, "$cover.jpg"),
      ),
    ),
  )

/** Frames in other containers than their own: WAV and, in `mp4Recipes.ts`, MP4. */
const inWav = (): ReadonlyArray<Recipe> => {
  const wav = (group: string, settings: string, source: Signal, ...steps: ReadonlyArray<Step>): Recipe =>
    recipe({ format: "wav", group, settings, source, steps })
  return [
    ...[44_100, 48_000, 22_050, 16_000, 11_025, 8000].flatMap((rate) =>
      signals(2, `mp3 in wav ${rate}`, { rate }).flatMap((source) => [
        wav(
          "ffmpeg-mp3-in-wav",
          "cbr64",
          source,
          ffmpeg("wav", "-c:a", "libmp3lame", "-b:a", rate < 16_000 ? "32k" : "64k"),
        ),
        wav("ffmpeg-mp3-in-wav", "vbr5", source, ffmpeg("wav", "-c:a", "libmp3lame", "-q:a", "5")),
      ]),
    ),
    ...[44_100, 48_000].flatMap((rate) =>
      signals(2, `shine in wav ${rate}`, { rate }).map((source) =>
        wav("ffmpeg-mp3-in-wav", "shine", source, ffmpeg("wav", "-c:a", "libshine", "-b:a", "96k")),
      ),
    ),
    ...[48_000, 44_100, 24_000].flatMap((rate) =>
      signals(2, `mp2 in wav ${rate}`, { rate }).map((source) =>
        wav("ffmpeg-mp2-in-wav", "cbr128", source, ffmpeg("wav", "-c:a", "mp2", "-b:a", "128k")),
      ),
    ),
    ...signals(3, "mp3 in wav with list", { rate: 44_100 }).map((source) =>
      wav(
        "ffmpeg-mp3-in-wav",
        "list-behind",
        source,
        ffmpeg("wav", "-c:a", "libmp3lame", "-b:a", "64k"),
        edit("list", wavChunks({ after: id3Chunk })),
      ),
    ),
  ]
}

const id3Chunk = Buffer.concat([Buffer.from("id3 "), Buffer.from([100, 0, 0, 0]), Buffer.alloc(100, 0x49)])

export const mp3Recipes: ReadonlyArray<Recipe> = [
  ...lameConstant(),
  ...lameVariable(),
  ...lameAverage(),
  ...lameExtras(),
  ...lamePipes(),
  ...ffmpegLame(),
  ...ffmpegCovers(),
  ...ffmpegPipes(),
  ...shine(),
  ...layer2(),
  ...gstreamerMp3(),
  ...otherPrograms(),
  ...npmMp3(),
  ...tagged(),
  ...retagged(),
  ...inWav(),
]
