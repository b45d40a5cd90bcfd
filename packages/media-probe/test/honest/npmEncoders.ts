import { pcmOf, type Load, type Step, type Tool } from "./Recipe.ts"

// Interfaces of the optional packages, as far as they are used here.

interface LamejsEncoder {
  encodeBuffer(left: Int16Array, right?: Int16Array): Uint8Array
  flush(): Uint8Array
}

interface Lamejs {
  readonly Mp3Encoder: new (channels: number, rate: number, kbps: number) => LamejsEncoder
}

interface WasmEncoder {
  configure(options: Readonly<Record<string, number>>): void
  encode(channels: ReadonlyArray<Float32Array>): Uint8Array
  finalize(): Uint8Array
}

interface MediabunnyOutput {
  addAudioTrack(source: unknown): void
  start(): Promise<void>
  finalize(): Promise<void>
}

interface MediabunnySource {
  add(sample: unknown): Promise<void>
  close(): void
}

interface Mediabunny {
  readonly Output: new (options: { readonly format: unknown; readonly target: unknown }) => MediabunnyOutput
  readonly BufferTarget: new () => { readonly buffer: ArrayBuffer | null }
  readonly AudioSampleSource: new (options: { readonly codec: string; readonly bitrate?: number }) => MediabunnySource
  readonly AudioSample: new (init: object) => { close(): void }
  readonly Input: new (options: object) => unknown
  readonly BufferSource: new (bytes: Uint8Array) => unknown
  readonly ALL_FORMATS: unknown
  readonly Conversion: { init(options: object): Promise<{ readonly isValid: boolean; execute(): Promise<void> }> }
  readonly Mp3OutputFormat: new (options?: object) => unknown
  readonly Mp4OutputFormat: new (options?: object) => unknown
  readonly MovOutputFormat: new (options?: object) => unknown
  readonly WebMOutputFormat: new (options?: object) => unknown
  readonly WavOutputFormat: new (options?: object) => unknown
}

const BLOCK = 1152

const encodeStep = (
  tools: ReadonlyArray<Tool>,
  label: string,
  ext: string,
  encode: (input: Buffer, load: Load) => Promise<Uint8Array>,
): Step => ({ kind: "encode", tools, label, ext, encode })

export const encodeWithLamejs = (kbps: number): Step =>
  encodeStep(["npm:@breezystack/lamejs"], `lamejs ${kbps}`, "mp3", async (input, load) => {
    const { Mp3Encoder } = (await load("@breezystack/lamejs")) as Lamejs
    const { channels, rate, samples } = pcmOf(input)
    const encoder = new Mp3Encoder(channels, rate, kbps)
    const [left = new Int16Array(0), right] = planes(samples, channels)
    const parts: Array<Uint8Array> = []
    for (let at = 0; at < left.length; at += BLOCK)
      parts.push(Uint8Array.from(encoder.encodeBuffer(left.slice(at, at + BLOCK), right?.slice(at, at + BLOCK))))
    return Buffer.concat([...parts, Uint8Array.from(encoder.flush())])
  })

export const encodeWithWasmEncoders = (options: { readonly bitrate: number } | { readonly vbrQuality: number }): Step =>
  encodeStep(["npm:wasm-media-encoders"], JSON.stringify(options), "mp3", async (input, load) => {
    const encoders = (await load("wasm-media-encoders")) as { readonly createMp3Encoder: () => Promise<WasmEncoder> }
    const { channels, rate, samples } = pcmOf(input)
    const encoder = await encoders.createMp3Encoder()
    encoder.configure({ sampleRate: rate, channels, outputSampleRate: rate, ...options })
    const floats = planes(samples, channels).map((plane) => Float32Array.from(plane, (value) => value / 32_768))
    const parts: Array<Uint8Array> = []
    for (let at = 0; at < (floats[0]?.length ?? 0); at += 20 * BLOCK)
      parts.push(Uint8Array.from(encoder.encode(floats.map((plane) => plane.subarray(at, at + 20 * BLOCK)))))
    return Buffer.concat([...parts, Uint8Array.from(encoder.finalize())])
  })

const planes = (samples: Int16Array, channels: number): ReadonlyArray<Int16Array> =>
  Array.from({ length: channels }, (_, channel) =>
    Int16Array.from({ length: samples.length / channels }, (_, frame) => samples[frame * channels + channel] ?? 0),
  )

/** Containers that mediabunny writes, with its options. */
const containers = {
  mp3: (m: Mediabunny) => new m.Mp3OutputFormat(),
  "mp3-no-xing": (m: Mediabunny) => new m.Mp3OutputFormat({ xingHeader: false }),
  mp4: (m: Mediabunny) => new m.Mp4OutputFormat({ fastStart: false }),
  "mp4-fast-start": (m: Mediabunny) => new m.Mp4OutputFormat({ fastStart: "in-memory" }),
  "mp4-fragmented": (m: Mediabunny) => new m.Mp4OutputFormat({ fastStart: "fragmented", minimumFragmentDuration: 0.3 }),
  mov: (m: Mediabunny) => new m.MovOutputFormat({ fastStart: "in-memory" }),
  "mov-fragmented": (m: Mediabunny) => new m.MovOutputFormat({ fastStart: "fragmented" }),
  webm: (m: Mediabunny) => new m.WebMOutputFormat(),
  "webm-append-only": (m: Mediabunny) => new m.WebMOutputFormat({ appendOnly: true }),
  wav: (m: Mediabunny) => new m.WavOutputFormat(),
  "wav-large": (m: Mediabunny) => new m.WavOutputFormat({ large: true }),
} as const

export type MediabunnyContainer = keyof typeof containers

/** Packages that bring the encoders of mediabunny; PCM needs none. */
const encoderPackages: Readonly<Record<string, ReadonlyArray<string>>> = {
  mp3: ["@mediabunny/mp3-encoder"],
  aac: ["@mediabunny/aac-encoder"],
  opus: ["@napi-rs/webcodecs"],
  vorbis: ["@napi-rs/webcodecs"],
  flac: ["@napi-rs/webcodecs"],
}

const registered = new Set<string>()

const register = async (codec: string, load: Load): Promise<void> => {
  if (registered.has(codec)) return
  registered.add(codec)
  for (const name of encoderPackages[codec] ?? []) {
    const extension = (await load(name)) as Readonly<Record<string, unknown>>
    for (const [key, value] of Object.entries(extension))
      if (key.startsWith("register")) (value as () => void)()
      else if (name.includes("webcodecs") && /^(Audio|Encoded)/.test(key) && !(key in globalThis))
        Object.defineProperty(globalThis, key, { value, configurable: true })
  }
}

/** Encodes with mediabunny and an extension for the codec. */
export const encodeWithMediabunny = (codec: string, container: MediabunnyContainer, kbps?: number): Step =>
  encodeStep(
    ["npm:mediabunny", ...(encoderPackages[codec] ?? []).map((name) => `npm:${name}`)],
    `${codec} ${container} ${kbps ?? ""}`,
    "out",
    async (input, load) => {
      await register(codec, load)
      const m = (await load("mediabunny")) as Mediabunny
      const { channels, rate, samples } = pcmOf(input)
      const target = new m.BufferTarget()
      const output = new m.Output({ format: containers[container](m), target })
      const source = new m.AudioSampleSource({ codec, ...(kbps === undefined ? {} : { bitrate: kbps * 1000 }) })
      output.addAudioTrack(source)
      await output.start()
      for (let at = 0; at < samples.length; at += 4096 * channels) {
        const sample = new m.AudioSample({
          data: samples.slice(at, at + 4096 * channels),
          format: "s16",
          numberOfChannels: channels,
          sampleRate: rate,
          timestamp: at / channels / rate,
        })
        await source.add(sample)
        sample.close()
      }
      source.close()
      await output.finalize()
      return new Uint8Array(target.buffer ?? new ArrayBuffer(0))
    },
  )

/** Copies the packets of another container with mediabunny. */
export const remuxWithMediabunny = (container: MediabunnyContainer): Step =>
  encodeStep(["npm:mediabunny"], container, "out", async (input, load) => {
    const m = (await load("mediabunny")) as Mediabunny
    const target = new m.BufferTarget()
    const output = new m.Output({ format: containers[container](m), target })
    const source = new m.Input({ source: new m.BufferSource(input), formats: m.ALL_FORMATS })
    const conversion = await m.Conversion.init({ input: source, output, showWarnings: false })
    if (!conversion.isValid) throw new Error(`mediabunny cannot write these packets as ${container}`)
    await conversion.execute()
    return new Uint8Array(target.buffer ?? new ArrayBuffer(0))
  })

export type WavPackage = "wav-encoder" | "node-wav" | "audiobuffer-to-wav" | "wave-codec" | "wavefile" | "wav"

interface WaveFile {
  fromScratch(channels: number, rate: number, bits: string, samples: ReadonlyArray<ArrayLike<number>>): void
  toIMAADPCM(): void
  toALaw(): void
  toMuLaw(): void
  setCuePoint(point: object): void
  setTag(tag: string, value: string): void
  toBuffer(): Uint8Array
}

const npmNames: Readonly<Record<WavPackage, string>> = {
  "wav-encoder": "wav-encoder",
  "node-wav": "node-wav",
  "audiobuffer-to-wav": "audiobuffer-to-wav",
  "wave-codec": "@echogarden/wave-codec",
  wavefile: "wavefile",
  wav: "wav",
}

/** Encodes with one of the npm packages that write WAV. */
export const encodeWithWavPackage = (name: WavPackage, variant: string): Step =>
  encodeStep([`npm:${npmNames[name]}`], `${name} ${variant}`, "wav", async (input, load) => {
    const pcm = pcmOf(input)
    const integers = planes(pcm.samples, pcm.channels)
    const channelData = integers.map((plane) => Float32Array.from(plane, (value) => value / 32_768))
    const module = await load(npmNames[name])
    const bitDepth = Number.parseInt(variant, 10)
    const isFloat = variant.endsWith("f")
    const audio = { sampleRate: pcm.rate, channelData }
    switch (name) {
      case "wav-encoder":
        return new Uint8Array(await module.default.encode(audio, { bitDepth, float: isFloat }))
      case "node-wav":
        return new Uint8Array(module.default.encode(channelData, { sampleRate: pcm.rate, float: isFloat, bitDepth }))
      case "audiobuffer-to-wav": {
        const buffer = {
          numberOfChannels: pcm.channels,
          sampleRate: pcm.rate,
          getChannelData: (index: number) => channelData[index],
        }
        return new Uint8Array(module.default(buffer, { float32: isFloat }))
      }
      case "wave-codec": {
        const format =
          variant === "alaw" ? module.SampleFormat.Alaw : isFloat ? module.SampleFormat.Float : module.SampleFormat.PCM
        return module.encodeWaveFromFloat32Channels(channelData, pcm.rate, variant === "alaw" ? 8 : bitDepth, format)
      }
      case "wavefile":
        return wavefileOf(new (module.WaveFile ?? module.default.WaveFile)() as WaveFile, variant, pcm.rate, integers)
      case "wav":
        return streamedWav(module.default.Writer, pcm.rate, pcm.channels, pcm.samples)
    }
  })

const wavefileOf = (file: WaveFile, variant: string, rate: number, integers: ReadonlyArray<Int16Array>): Uint8Array => {
  const to = (scale: number) => integers.map((plane) => Array.from(plane, (value) => Math.trunc(value * scale)))
  const samples =
    variant === "8"
      ? integers.map((plane) => Array.from(plane, (value) => (value >> 8) + 128))
      : variant === "32f" || variant === "64"
        ? integers.map((plane) => Array.from(plane, (value) => value / 32_768))
        : to(variant === "24" ? 256 : variant === "20" ? 16 : 1)
  const bits = ["8", "20", "24", "32f", "64"].includes(variant) ? variant : "16"
  file.fromScratch(integers.length, rate, bits, integers.length === 1 ? ([...(samples[0] ?? [])] as never) : samples)
  if (variant === "8a") file.toALaw()
  if (variant === "8m") file.toMuLaw()
  if (variant === "4") file.toIMAADPCM()
  if (variant === "cue") file.setCuePoint({ position: 100, label: "a cue" })
  if (variant === "tag") file.setTag("ICMT", "some comments")
  return file.toBuffer()
}

interface Writer extends NodeJS.ReadWriteStream {}

/** The package `wav` writes a header without lengths, because it cannot go back. */
const streamedWav = async (
  Writer: new (options: object) => Writer,
  sampleRate: number,
  channels: number,
  samples: Int16Array,
): Promise<Uint8Array> => {
  const writer = new Writer({ channels, sampleRate, bitDepth: 16 })
  const parts: Array<Buffer> = []
  writer.on("data", (part: Buffer) => parts.push(part))
  writer.end(Buffer.from(samples.buffer, samples.byteOffset, samples.byteLength))
  await new Promise((resolve) => writer.once("end", resolve))
  return Buffer.concat(parts)
}

interface Mp4boxTrack {
  readonly id: number
}

/** Splits an MP4 into fragments with mp4box.js. */
export const fragmentWithMp4box = (samplesPerFragment: number): Step =>
  encodeStep(["npm:mp4box"], `fragments of ${samplesPerFragment}`, "mp4", async (input, load) => {
    const { createFile } = await load("mp4box")
    const file = createFile()
    const parts: Array<Buffer> = []
    file.onReady = ({ tracks }: { readonly tracks: ReadonlyArray<Mp4boxTrack> }) => {
      file.onSegment = (_id: number, _user: unknown, buffer: ArrayBuffer) => parts.push(Buffer.from(buffer))
      for (const { id } of tracks) file.setSegmentOptions(id, undefined, { nbSamples: samplesPerFragment })
      parts.unshift(Buffer.from(file.initializeSegmentation().buffer))
      file.start()
    }
    const buffer = new Uint8Array(input).buffer as ArrayBuffer & { fileStart: number }
    buffer.fileStart = 0
    file.appendBuffer(buffer)
    file.flush()
    return Buffer.concat(parts)
  })

interface PacketTrack {
  getDecoderConfig(): Promise<Readonly<Record<string, unknown>>>
}

interface Packet {
  readonly data: Uint8Array
  readonly timestamp: number
  readonly duration: number
}

/** Reads the packets of a file's first audio track with mediabunny. */
const packetsOf = async (input: Buffer, load: Load) => {
  const m = await load("mediabunny")
  const source = new m.Input({ source: new m.BufferSource(input), formats: m.ALL_FORMATS })
  const track = (await source.getPrimaryAudioTrack()) as PacketTrack
  const packets: Array<Packet> = []
  for await (const packet of new m.EncodedPacketSink(track).packets()) packets.push(packet as Packet)
  return { config: await track.getDecoderConfig(), packets }
}

/** Copies AAC packets with the npm package `mp4-muxer`. */
export const muxWithMp4Muxer = (fastStart: false | "in-memory" | "fragmented"): Step =>
  encodeStep(["npm:mp4-muxer", "npm:mediabunny"], `fastStart ${fastStart}`, "mp4", async (input, load) => {
    const { ArrayBufferTarget, Muxer } = await load("mp4-muxer")
    const { config, packets } = await packetsOf(input, load)
    const muxer = new Muxer({
      target: new ArrayBufferTarget(),
      fastStart,
      firstTimestampBehavior: "offset",
      audio: { codec: "aac", numberOfChannels: config["numberOfChannels"], sampleRate: config["sampleRate"] },
    })
    const first = packets[0]?.timestamp ?? 0
    for (const { data, duration, timestamp } of packets)
      muxer.addAudioChunkRaw(data, "key", Math.round((timestamp - first) * 1e6), Math.round(duration * 1e6), {
        decoderConfig: config,
      })
    muxer.finalize()
    return new Uint8Array(muxer.target.buffer as ArrayBuffer)
  })

/** Copies Opus or Vorbis packets with the npm package `webm-muxer`. */
export const muxWithWebmMuxer = (streaming: boolean): Step =>
  encodeStep(["npm:webm-muxer", "npm:mediabunny"], `streaming ${streaming}`, "webm", async (input, load) => {
    const { ArrayBufferTarget, Muxer } = await load("webm-muxer")
    const { config, packets } = await packetsOf(input, load)
    const muxer = new Muxer({
      target: new ArrayBufferTarget(),
      streaming,
      firstTimestampBehavior: "offset",
      audio: {
        codec: config["codec"] === "opus" ? "A_OPUS" : "A_VORBIS",
        numberOfChannels: config["numberOfChannels"],
        sampleRate: config["sampleRate"],
      },
    })
    const first = packets[0]?.timestamp ?? 0
    for (const { data, timestamp } of packets)
      muxer.addAudioChunkRaw(data, "key", Math.round((timestamp - first) * 1e6), { decoderConfig: config })
    muxer.finalize()
    return new Uint8Array(muxer.target.buffer as ArrayBuffer)
  })

/** Turns an MPEG transport stream into a fragmented MP4 with mux.js. */
export const muxWithMuxJs = (): Step =>
  encodeStep(["npm:mux.js"], "mux.js", "mp4", async (input, load) => {
    const muxjs = await load("mux.js")
    const transmuxer = new muxjs.default.mp4.Transmuxer({ keepOriginalTimestamps: true })
    const parts: Array<Uint8Array> = []
    transmuxer.on("data", ({ data, initSegment }: { readonly data: Uint8Array; readonly initSegment: Uint8Array }) => {
      if (parts.length === 0) parts.push(initSegment)
      parts.push(data)
    })
    transmuxer.push(new Uint8Array(input))
    transmuxer.flush()
    return Buffer.concat(parts)
  })
