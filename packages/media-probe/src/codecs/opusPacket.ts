// Duration of one frame in milliseconds by configuration number (RFC 6716, table 2).
const speechFrames = [10, 20, 40, 60]
const hybridFrames = [10, 20]
const musicFrames = [2.5, 5, 10, 20]

/** Returns the duration of an Opus packet in milliseconds, from its first two bytes (RFC 6716, section 3); `undefined` if invalid. */
export const opusPacketMs = (toc: number, frameCountByte: number | undefined): number | undefined => {
  const configuration = toc >> 3
  const frameMs =
    configuration < 12
      ? speechFrames[configuration % 4]
      : configuration < 16
        ? hybridFrames[configuration % 2]
        : musicFrames[configuration % 4]
  const code = toc & 3
  const frames = code === 0 ? 1 : code < 3 ? 2 : (frameCountByte ?? 0) & 0x3f
  const total = (frameMs ?? 0) * frames
  return total > 0 && total <= 120 ? total : undefined
}
