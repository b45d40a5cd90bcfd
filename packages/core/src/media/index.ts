export { type Box, boxAt, type Chunk, chunkAt, dataBytes, type Element, elementAt } from "./containers.ts"
export { crc16, type EbmlNumber, readEbmlNumber, startsWith, viewOf } from "./bytes.ts"
export { adtsFrameAt, type Frame, type MpegFrame, mpegFrameAt, afterTags, id3End, tagEnd } from "./frames.ts"
export { type AudioContainer, SNIFF_BYTES, sniffContainer } from "./sniffContainer.ts"
