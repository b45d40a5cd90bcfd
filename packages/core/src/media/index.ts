export { type Box, boxAt, type Chunk, chunkAt, dataBytes, type Element, elementAt } from "./containers.ts"
export { crc16, type EbmlNumber, readEbmlNumber, startsWith, viewOf } from "./bytes.ts"
export { adtsFrameAt, type Frame, type MpegFrame, mpegFrameAt } from "./frames.ts"
export { afterTags, id3End, tagEnd } from "./tags.ts"
