export { type Box, boxAt, type RiffChunk, chunkAt, dataBytes, type Element, elementAt } from "./containers.ts"
export {
  crc16,
  type EbmlNumber,
  readEbmlNumber,
  startsWith,
  viewOf,
  adtsFrameAt,
  type Frame,
  type MpegFrame,
  mpegFrameAt,
  afterTags,
  id3End,
  tagEnd,
} from "./bytes.ts"
export { type AudioContainer, SNIFF_BYTES, sniffContainer } from "./sniffContainer.ts"
