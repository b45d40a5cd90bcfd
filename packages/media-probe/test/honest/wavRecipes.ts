import {
  chunksByName,
  extensible,
  id3v1,
  id3v2,
  behind,
  before,
  noise,
  oddData,
  statedSizes,
  unpadded,
  wav64,
  wavChunks,
  apev2,
} from "./edits.ts"
import { encodeWithMediabunny, encodeWithWavPackage, type WavPackage } from "./npmEncoders.ts"
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
import type { Signal } from "./signals.ts"

const rates = [8000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 88_200, 96_000]

const made = (group: string, settings: string, source: Signal, ...steps: ReadonlyArray<Step>): Recipe =>
  recipe({ format: "wav", group, settings, source, steps })

/** Limits the size of files at high rates. */
const some = (count: number, seed: string, rate: number): ReadonlyArray<Signal> =>
  signals(count, seed, rate > 48_000 ? { rate, seconds: pick([0.2, 0.5, 1], seed) } : { rate })

const pcm = ["u8", "s16le", "s24le", "s32le", "f32le", "f64le", "alaw", "mulaw"]

const ffmpegPcm = (): ReadonlyArray<Recipe> =>
  pcm.flatMap((codec) =>
    rates.flatMap((rate) =>
      some(rate % 8000 === 0 && rate <= 48_000 ? 2 : 1, `ffmpeg ${codec} ${rate}`, rate).map((source) =>
        made(`ffmpeg-pcm_${codec}`, "", source, ffmpeg("wav", "-c:a", `pcm_${codec}`)),
      ),
    ),
  )

const ffmpegVariants: Readonly<Record<string, ReadonlyArray<string>>> = {
  bitexact: ["-bitexact"],
  metadata: ["-metadata", "title=A short recording", "-metadata", "comment=kiln"],
  bext: ["-write_bext", "1", "-metadata", "description=A call", "-metadata", "originator=kiln"],
  rf64: ["-rf64", "always"],
  "rf64-auto": ["-rf64", "auto"],
  peak: ["-write_peak", "on"],
  surround: ["-ac", "6"],
  quadro: ["-ac", "4"],
}

const ffmpegContainers = (): ReadonlyArray<Recipe> => [
  ...Object.entries(ffmpegVariants).flatMap(([settings, args]) =>
    (settings === "peak" ? ["s16le"] : ["s16le", "s24le"]).flatMap((codec) =>
      [8000, 44_100].flatMap((rate) =>
        some(1, `ffmpeg wav ${settings} ${codec} ${rate}`, rate).map((source) =>
          made(`ffmpeg-pcm_${codec}`, settings, source, ffmpeg("wav", "-c:a", `pcm_${codec}`, ...args)),
        ),
      ),
    ),
  ),
  // The sizes of a stream are all ones.
  ...[...pcm, "adpcm_ms", "adpcm_ima_wav"].flatMap((codec) =>
    [8000, 22_050, 48_000].flatMap((rate) =>
      some(1, `ffmpeg wav pipe ${codec} ${rate}`, rate).map((source) => {
        const name = codec.startsWith("adpcm") ? codec : `pcm_${codec}`
        return made(`ffmpeg-${name}`, "pipe", source, ffmpegPipe("wav", "wav", "-c:a", name))
      }),
    ),
  ),
]

const adpcm = (): ReadonlyArray<Recipe> => [
  ...["adpcm_ms", "adpcm_ima_wav"].flatMap((codec) =>
    rates.slice(0, 9).flatMap((rate) =>
      some(2, `ffmpeg ${codec} ${rate}`, rate).map((source, index) => {
        const blocks =
          codec === "adpcm_ms" && index === 1 ? ["-block_size", pick(["256", "512", "2048"], `${rate}`)] : []
        return made(
          `ffmpeg-${codec}`,
          blocks.length > 0 ? `block-${blocks[1]}` : "",
          source,
          ffmpeg("wav", "-c:a", codec, ...blocks),
        )
      }),
    ),
  ),
  ...signals(6, "gsm_ms", { rate: 8000, layout: "mono" }).map((source) =>
    made("ffmpeg-gsm_ms", "", source, ffmpeg("wav", "-c:a", "libgsm_ms", "-b:a", "13000")),
  ),
]

/** Formats that few recorders write. */
const uncommon = (): ReadonlyArray<Recipe> => [
  ...signals(3, "g722", { rate: 16_000, layout: "mono" }).map((source) =>
    made("ffmpeg-g722", "", source, ffmpeg("wav", "-c:a", "g722")),
  ),
  ...signals(3, "g726", { rate: 8000, layout: "mono" }).map((source, index) =>
    made("ffmpeg-g726", `${16 + index * 8}k`, source, ffmpeg("wav", "-c:a", "g726", "-b:a", `${16 + index * 8}k`)),
  ),
  ...signals(3, "yamaha", { rate: 22_050 }).map((source) =>
    made("ffmpeg-adpcm_yamaha", "", source, ffmpeg("wav", "-c:a", "adpcm_yamaha")),
  ),
  ...[44_100, 48_000].flatMap((rate) =>
    signals(2, `ac3 in wav ${rate}`, { rate }).map((source) =>
      made("ffmpeg-ac3-in-wav", "", source, ffmpeg("wav", "-c:a", "ac3", "-b:a", "128k")),
    ),
  ),
  ...[44_100, 16_000].flatMap((rate) =>
    signals(2, `flac in wav ${rate}`, { rate }).map((source) =>
      made("ffmpeg-flac-in-wav", "", source, ffmpeg("wav", "-c:a", "flac")),
    ),
  ),
  ...[44_100, 16_000].flatMap((rate) =>
    signals(2, `wma in wav ${rate}`, { rate }).map((source) =>
      made("ffmpeg-wmav2-in-wav", "", source, ffmpeg("wav", "-c:a", "wmav2", "-b:a", "64k")),
    ),
  ),
]

const soxEncodings: Readonly<Record<string, ReadonlyArray<string>>> = {
  u8: ["-e", "unsigned-integer", "-b", "8"],
  s16: ["-e", "signed-integer", "-b", "16"],
  s24: ["-e", "signed-integer", "-b", "24"],
  s32: ["-e", "signed-integer", "-b", "32"],
  f32: ["-e", "floating-point", "-b", "32"],
  f64: ["-e", "floating-point", "-b", "64"],
  alaw: ["-e", "a-law"],
  mulaw: ["-e", "mu-law"],
  "ms-adpcm": ["-e", "ms-adpcm"],
  "ima-adpcm": ["-e", "ima-adpcm"],
  wavpcm: ["-t", "wavpcm", "-b", "24"],
}

const sox = (): ReadonlyArray<Recipe> => [
  ...Object.entries(soxEncodings).flatMap(([settings, args]) =>
    [8000, 16_000, 22_050, 44_100, 48_000].flatMap((rate) =>
      signals(1, `sox ${settings} ${rate}`, { rate }).map((source) =>
        made("sox-wav", settings, source, run("sox", "wav", "$in", ...args, "$out")),
      ),
    ),
  ),
  ...signals(4, "sox gsm", { rate: 8000, layout: "mono" }).map((source) =>
    made("sox-wav", "gsm", source, run("sox", "wav", "$in", "-e", "gsm-full-rate", "$out")),
  ),
  ...["u8", "s16", "s24", "f32", "mulaw"].flatMap((settings) =>
    [8000, 44_100].flatMap((rate) =>
      signals(1, `sox pipe ${settings} ${rate}`, { rate }).map((source) =>
        made(
          "sox-wav",
          `pipe-${settings}`,
          source,
          pipe("sox", "wav", "$stdin", "-t", "wav", "-", ...(soxEncodings[settings] ?? []), "-t", "wav", "-"),
        ),
      ),
    ),
  ),
]

const sndfileEncodings = [
  "pcmu8",
  "pcm16",
  "pcm24",
  "pcm32",
  "float32",
  "float64",
  "ulaw",
  "alaw",
  "ima-adpcm",
  "ms-adpcm",
]

const libsndfile = (): ReadonlyArray<Recipe> => [
  ...sndfileEncodings.flatMap((encoding) =>
    [8000, 16_000, 44_100, 48_000].flatMap((rate) =>
      // Silence cannot be normalized to full scale, and the program fails.
      signals(1, `sndfile ${encoding} ${rate}`, encoding.startsWith("float") ? { rate, kind: "music" } : { rate }).map(
        (source) =>
          made("libsndfile-wav", encoding, source, run("sndfile-convert", "wav", `-${encoding}`, "$in", "$out")),
      ),
    ),
  ),
  ...signals(4, "sndfile gsm610", { rate: 8000, layout: "mono" }).map((source) =>
    made("libsndfile-wav", "gsm610", source, run("sndfile-convert", "wav", "-gsm610", "$in", "$out")),
  ),
  ...["WAVEX", "RF64"].flatMap((form) =>
    ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW", "ALAW"].flatMap((subtype) =>
      [11_025, 44_100].flatMap((rate) =>
        signals(1, `soundfile ${form} ${subtype} ${rate}`, { rate }).map((source) =>
          made(
            "libsndfile-wav",
            `${form}-${subtype}`.toLowerCase(),
            source,
            python(
              "soundfile",
              "wav",
              `import soundfile, sys; d, r = soundfile.read(sys.argv[1]); soundfile.write(sys.argv[2], d, r, format='${form}', subtype='${subtype}')`,
            ),
          ),
        ),
      ),
    ),
  ),
]

const gstreamerWav = (): ReadonlyArray<Recipe> =>
  ["U8", "S16LE", "S24LE", "S32LE", "F32LE", "F64LE"]
    .flatMap((format) =>
      [8000, 24_000, 44_100].flatMap((rate) =>
        signals(1, `gst wav ${format} ${rate}`, { rate }).map((source) =>
          made(
            "gstreamer-wavenc",
            format.toLowerCase(),
            source,
            gstreamer("wav", `audio/x-raw,format=${format} ! wavenc`),
          ),
        ),
      ),
    )
    .concat(
      ["alawenc", "mulawenc"].flatMap((encoder) =>
        [8000, 16_000].flatMap((rate) =>
          signals(1, `gst ${encoder} ${rate}`, { rate }).map((source) =>
            made("gstreamer-wavenc", encoder, source, gstreamer("wav", `${encoder} ! wavenc`)),
          ),
        ),
      ),
    )

/** Decoders that write WAV. */
const decoders = (): ReadonlyArray<Recipe> =>
  [16_000, 44_100, 48_000].flatMap((rate) => {
    const flac = run("flac", "flac", "--silent", "-f", "-o", "$out", "$in")
    const mp3 = run("lame", "mp3", "--silent", "-b", "64", "$in", "$out")
    return (
      [
        ["flac-decode", "", [flac, run("flac", "wav", "--silent", "-d", "-f", "-o", "$out", "$in")]],
        [
          "flac-decode",
          "rf64",
          [flac, run("flac", "wav", "--silent", "-d", "-f", "--force-rf64-format", "-o", "$out", "$in")],
        ],
        [
          "flac-decode",
          "legacy",
          [flac, run("flac", "wav", "--silent", "-d", "-f", "--force-legacy-wave-format", "-o", "$out", "$in")],
        ],
        ["flac-decode", "pipe", [flac, pipe("flac", "wav", "--silent", "-d", "-c", "$in")]],
        [
          "wavpack-decode",
          "",
          [
            run("wavpack", "wv", "-q", "-y", "$in", "-o", "$out"),
            run("wvunpack", "wav", "-q", "-y", "$in", "-o", "$out"),
          ],
        ],
        [
          "wavpack-decode",
          "pipe",
          [
            run("wavpack", "wv", "-q", "-y", "$in", "-o", "$out"),
            pipe("wvunpack", "wav", "-q", "-w", "$in", "-o", "-"),
          ],
        ],
        [
          "oggdec",
          "",
          [run("oggenc", "ogg", "-Q", "-q", "2", "-o", "$out", "$in"), run("oggdec", "wav", "-Q", "-o", "$out", "$in")],
        ],
        [
          "oggdec",
          "24-bit",
          [
            run("oggenc", "ogg", "-Q", "-q", "2", "-o", "$out", "$in"),
            run("oggdec", "wav", "-Q", "-b", "24", "-o", "$out", "$in"),
          ],
        ],
        [
          "opusdec",
          "",
          [
            run("opusenc", "opus", "--quiet", "$in", "$out"),
            run("opusdec", "wav", "--quiet", "--force-wav", "$in", "$out"),
          ],
        ],
        [
          "opusdec",
          "float",
          [
            run("opusenc", "opus", "--quiet", "$in", "$out"),
            run("opusdec", "wav", "--quiet", "--float", "--force-wav", "$in", "$out"),
          ],
        ],
        ["lame-decode", "", [mp3, run("lame", "wav", "--silent", "--decode", "$in", "$out")]],
        ["lame-decode", "pipe", [mp3, pipe("lame", "wav", "--silent", "--decode", "$in", "-")]],
        ["mpg123", "", [mp3, run("mpg123", "wav", "-q", "-w", "$out", "$in")]],
        ["mpg123", "float", [mp3, run("mpg123", "wav", "-q", "-e", "f32", "-w", "$out", "$in")]],
        [
          "mplayer",
          "",
          [shell(["mplayer"], "wav", `mplayer -really-quiet -vo null -ao "pcm:file=$2" "$1" < /dev/null`)],
        ],
        ["ecasound", "", [run("ecasound", "wav", "-q", "-i", "$in", "-o", "$out")]],
        ["ecasound", "24-bit", [run("ecasound", "wav", "-q", "-i", "$in", `-f:s24_le,2,${rate}`, "-o", "$out")]],
        ["vlc-wav", "", [vlc("wav", `acodec=s16l,channels=2,samplerate=${rate}`, "wav")]],
      ] as const
    ).flatMap(([group, settings, steps]) =>
      signals(1, `${group} ${settings} ${rate}`, { rate }).map((source) => made(group, settings, source, ...steps)),
    )
  })

const sayings = [
  "Hello.",
  "Yes, please.",
  "This is a short recording for kiln.",
  "The train to Leeds leaves at nine forty from platform two.",
  "One, two, three, four, five, six, seven, eight, nine, ten.",
  "Um.",
]

/** Speech synthesizers' own files. The input is not used. */
const synthesizers = (): ReadonlyArray<Recipe> => {
  const unused: Signal = { kind: "silence", rate: 8000, layout: "mono", seconds: 0.2 }
  const spoken = (group: string, settings: string, step: Step): Recipe =>
    recipe({ format: "wav", group, settings, source: unused, steps: [step], seconds: undefined })
  return sayings.flatMap((saying, index) => [
    ...["en-us", "de", "fr"].map((voice) =>
      spoken("espeak-ng", `${voice}-${index}`, run("espeak-ng", "wav", "-v", voice, "-w", "$out", saying)),
    ),
    // The length in the header of a stream is made up.
    ...["80", "165", "390"].map((speed) =>
      spoken(
        "espeak-ng",
        `stdout-speed-${speed}-${index}`,
        pipe("espeak-ng", "wav", "-v", "en-us", "-s", speed, "--stdout", saying),
      ),
    ),
    spoken("flite", `slt-${index}`, run("flite", "wav", "-voice", "slt", "-t", saying, "-o", "$out")),
    spoken("flite", `kal-${index}`, run("flite", "wav", "-voice", "kal", "-t", saying, "-o", "$out")),
  ])
}

/** A sound card's recorder, of a device that returns silence. */
const recorder = (): ReadonlyArray<Recipe> =>
  ["U8", "S16_LE", "S24_3LE", "S32_LE", "FLOAT_LE"].flatMap((format, index) =>
    ["8000", "44100"].flatMap((rate) => {
      const source: Signal = { kind: "silence", rate: Number(rate), layout: "mono", seconds: 1 }
      const bytes = Number(rate) * [1, 2, 3, 4, 4][index]!
      return [
        made(
          "arecord",
          format.toLowerCase(),
          source,
          run("arecord", "wav", "-q", "-D", "null", "-d", "1", "-f", format, "-r", rate, "$out"),
        ),
        made(
          "arecord",
          `endless-${format.toLowerCase()}`,
          source,
          shell(
            ["arecord"],
            "wav",
            `arecord -q -D null -t wav -f ${format} -r ${rate} 2>/dev/null | head -c ${bytes + 58} > "$2"`,
          ),
        ),
      ]
    }),
  )

const packages: ReadonlyArray<readonly [WavPackage, string]> = [
  ["wav-encoder", "8"],
  ["wav-encoder", "16"],
  ["wav-encoder", "24"],
  ["wav-encoder", "32f"],
  ["node-wav", "8"],
  ["node-wav", "16"],
  ["node-wav", "24"],
  ["node-wav", "32f"],
  ["audiobuffer-to-wav", "16"],
  ["audiobuffer-to-wav", "32f"],
  ["wave-codec", "16"],
  ["wave-codec", "24"],
  ["wave-codec", "alaw"],
  ["wave-codec", "64f"],
  ["wavefile", "8"],
  ["wavefile", "16"],
  ["wavefile", "24"],
  ["wavefile", "20"],
  ["wavefile", "32f"],
  ["wavefile", "64"],
  ["wavefile", "8a"],
  ["wavefile", "8m"],
  ["wavefile", "4"],
  ["wavefile", "cue"],
  ["wavefile", "tag"],
  ["wav", "stream"],
]

const npmWav = (): ReadonlyArray<Recipe> => [
  ...packages.flatMap(([name, variant]) =>
    (variant === "4" ? [8000] : [8000, 16_000, 44_100]).flatMap((rate) =>
      signals(
        variant === "4" ? 3 : 1,
        `${name} ${variant} ${rate}`,
        variant === "4" ? { rate, layout: "mono" } : { rate },
      ).map((source) => made(`npm-${name}`, variant.toLowerCase(), source, encodeWithWavPackage(name, variant))),
    ),
  ),
  ...["pcm-u8", "pcm-s16", "pcm-s24", "pcm-s32", "pcm-f32", "ulaw", "alaw"].flatMap((codec) =>
    [8000, 44_100].flatMap((rate) =>
      signals(1, `mediabunny wav ${codec} ${rate}`, { rate }).flatMap((source) => [
        made("mediabunny-wav", codec, source, encodeWithMediabunny(codec, "wav")),
        made("mediabunny-wav", `${codec}-large`, source, encodeWithMediabunny(codec, "wav-large")),
      ]),
    ),
  ),
]

const { LIST = noise(0), bext = LIST, id3 = LIST, junkLower = LIST, large = LIST } = chunksByName

/** What recorders, editors and uploads do to the chunks around the audio. */
const changes: Readonly<Record<string, (file: Buffer) => Buffer>> = {
  ...Object.fromEntries(
    Object.entries(chunksByName).flatMap(([name, chunk]) => [
      [`${name.toLowerCase()}-between${name === "ID3" ? "-2" : ""}`, wavChunks({ between: chunk })],
      [`${name.toLowerCase()}-after${name === "ID3" ? "-2" : ""}`, wavChunks({ after: chunk })],
    ]),
  ),
  "junk-first": wavChunks({ first: junkLower }),
  "bext-first": wavChunks({ first: bext }),
  "everything-around": wavChunks({
    first: junkLower,
    between: Buffer.concat([bext, LIST]),
    after: Buffer.concat([id3, LIST, large]),
  }),
  "odd-chunk-unpadded-after": wavChunks({ after: Buffer.concat([unpadded("LIST", noise(31, 3)), id3]) }),
  "odd-audio-unpadded-list": oddData(false, LIST),
  "odd-audio-unpadded-id3": oddData(false, id3),
  "odd-audio-padded-list": oddData(true, LIST),
  "odd-audio-alone": oddData(false, Buffer.alloc(0)),
  "zeros-behind-100": behind(Buffer.alloc(100)),
  "zeros-behind-4096": behind(Buffer.alloc(4096)),
  "zeros-behind-1-mb": behind(Buffer.alloc(1_000_000)),
  "id3v2-behind": behind(id3v2({ version: 3, padding: 500 })),
  "id3v2-footer-behind": behind(id3v2({ version: 4, hasFooter: true })),
  "id3v1-behind": behind(id3v1()),
  "apev2-behind": behind(apev2(true)),
  "line-break-behind": behind(Buffer.from("\r\n")),
  "id3v2-before": before(id3v2({ version: 3 })),
  "id3v2-padded-before": before(id3v2({ version: 4, padding: 4000 })),
  "size-0": statedSizes(0, 0),
  "size-0-of-audio-only": statedSizes(0, "same"),
  "size-all-ones": statedSizes(0xffff_ffff),
  "size-0x7ffff000": statedSizes(0x7fff_f000, 0x7fff_f024),
  "size-0x80000000": statedSizes(0x8000_0000, 0x8000_0024),
  "size-0x7fffffff": statedSizes(0x7fff_ffff, 0x7fff_ffff),
  "size-past-end": statedSizes((bytes) => bytes + 4000, "same"),
  "size-twice": statedSizes((bytes) => bytes * 2, "same"),
  "form-size-0": statedSizes((bytes) => bytes, 0),
  "form-size-all-ones": statedSizes((bytes) => bytes, 0xffff_ffff),
  "form-size-too-small": statedSizes((bytes) => bytes, 36),
  rf64: wav64("RF64", true),
  bw64: wav64("BW64", true),
  "rf64-all-ones": wav64("RF64", false),
  "bw64-all-ones": wav64("BW64", false),
  "extensible-16": extensible(16),
  "extensible-12-valid": extensible(12),
}

const changed = (): ReadonlyArray<Recipe> =>
  Object.entries(changes).flatMap(([settings, change]) => [
    ...signals(2, `changed ${settings}`, { rate: 8000 }).map((source) =>
      made("edited-s16", settings, source, edit(settings, change)),
    ),
    ...signals(1, `changed 44.1 ${settings}`, { rate: 44_100 }).map((source) =>
      made("edited-s16", settings, source, edit(settings, change)),
    ),
    ...(settings.startsWith("extensible")
      ? []
      : [
          ...signals(1, `changed u8 ${settings}`, { rate: 8000, layout: "mono" }).map((source) =>
            made("edited-u8", settings, source, ffmpeg("wav", "-bitexact", "-c:a", "pcm_u8"), edit(settings, change)),
          ),
          ...signals(1, `changed s24 ${settings}`, { rate: 16_000 }).map((source) =>
            made(
              "edited-s24",
              settings,
              source,
              ffmpeg("wav", "-bitexact", "-c:a", "pcm_s24le"),
              edit(settings, change),
            ),
          ),
        ]),
  ])

const extensibles = (): ReadonlyArray<Recipe> =>
  (
    [
      ["pcm_u8", 8],
      ["pcm_s24le", 24],
      ["pcm_s24le", 20],
      ["pcm_s32le", 32],
      ["pcm_s32le", 24],
      ["pcm_f32le", 32],
      ["pcm_f64le", 64],
      ["pcm_alaw", 8],
      ["pcm_mulaw", 8],
    ] as const
  ).flatMap(([codec, bits]) =>
    [8000, 16_000, 48_000].flatMap((rate) =>
      signals(1, `extensible ${codec} ${bits} ${rate}`, { rate }).map((source) =>
        made(
          "edited-extensible",
          `${codec}-${bits}-valid`,
          source,
          ffmpeg("wav", "-bitexact", "-c:a", codec),
          edit(`extensible ${bits}`, extensible(bits)),
        ),
      ),
    ),
  )

/** Calls and hold music of several minutes. */
const long = (): ReadonlyArray<Recipe> =>
  (
    [
      ["speech", 8000, 170],
      ["speech", 8000, 240],
      ["speech", 16_000, 200],
      ["speech", 16_000, 300],
      ["quiet-speech", 8000, 180],
      ["clipped-speech", 8000, 300],
      ["music", 8000, 240],
      ["music", 16_000, 180],
      ["music", 8000, 300],
      ["pink-noise", 8000, 200],
      ["quiet-noise", 8000, 240],
      ["white-noise", 16_000, 170],
      ["tone-440", 8000, 300],
      ["silence", 8000, 240],
      ["alternating", 8000, 180],
      ["square", 8000, 180],
    ] as const
  ).flatMap(([kind, rate, seconds], index) => {
    const source = signal(`long ${index}`, { kind, rate, seconds, layout: "mono" })
    return [
      made("long-wav", "s16", source),
      made("long-wav", "mulaw", source, ffmpeg("wav", "-c:a", "pcm_mulaw")),
      ...(index % 2 === 0
        ? [made("long-wav", "u8", source, ffmpeg("wav", "-c:a", "pcm_u8"))]
        : [made("long-wav", "alaw", source, ffmpeg("wav", "-c:a", "pcm_alaw"))]),
      ...(index % 3 === 0
        ? [
            made("long-wav", "s24", source, ffmpeg("wav", "-c:a", "pcm_s24le")),
            made("long-wav", "pipe", source, ffmpegPipe("wav", "wav", "-c:a", "pcm_s16le")),
          ]
        : []),
      ...(index % 4 === 0 ? [made("long-wav", "ima", source, ffmpeg("wav", "-c:a", "adpcm_ima_wav"))] : []),
    ]
  })

export const wavRecipes: ReadonlyArray<Recipe> = [
  ...ffmpegPcm(),
  ...ffmpegContainers(),
  ...adpcm(),
  ...uncommon(),
  ...sox(),
  ...libsndfile(),
  ...gstreamerWav(),
  ...decoders(),
  ...synthesizers(),
  ...recorder(),
  ...npmWav(),
  ...changed(),
  ...extensibles(),
  ...long(),
]
