/** Boxes that ffmpeg or other decoders enter, skip, or read in a special way. */
export const boxNames = [
  "moov|trak|mdia|minf|stbl|edts|mvex|moof|traf|udta|dinf|wave|ilst|sinf|schi|tref|meta|stsd|free|skip",
  "wide|mdat|uuid|hoov|cmov|mfra|gmhd|----|mp4a|frma|hdlr|stsz|stz2|stts|stsc|stco|co64|elst|mdhd|tkhd",
  "mvhd|trex|tfhd|tfdt|trun|sidx|ctts|sdtp|sgpd|sbgp|stss|senc|esds|alac|dOps|dref|cdat|rmra|pnot|xxxx",
].flatMap((line) => line.split("|"))

/** Sample descriptions: the tags of `ff_codec_movaudio_tags`, some video, data and WAVE tags, and unknown ones. */
export const sampleEntries = [
  "mp4a|ac-3|sac3|ima4|alac|samr|sawb|dtsc|dtsh|dtsl|dtse|DTS |ec-3|vdva|dvca|agsm|ilbc|MAC3|MAC6|.mp1",
  ".mp2|.mp3|mp3 |ms\0U|ms\0P|ms\0\x01|ms\0\x11|ms\0\x02|ms\0\x06|ms\0\x07|ms\0\x31|ms \0|TS\0\x01",
  "TS\0U|nmos|NELL|alaw|ulaw|fl32|fl64|twos|sowt|lpcm|ipcm|fpcm|in24|in32|raw |NONE|Qclp|Qclq|sqcp|QDM2",
  "QDMC|spex|SPXN|sevc|ssvm|fLaC|mlpa|Opus|mhm1|enca|encv|avc1|mp4v|mp4s|text|tmcd|ac-4|OPUS|opus",
  "\0\0\0\0|xxxx",
].flatMap((line) => line.split("|"))

export const handlers = "soun|vide|text|data|sbtl|meta|hint|tmcd|mdir|\0\0\0\0|url ".split("|")

/** Identifiers of EBML elements, known and unknown, of all lengths. */
export const ebmlIds = [
  "1a45dfa3|18538067|1549a966|1654ae6b|1f43b675|114d9b74|1c53bb6b|1254c367|1043a770|1941a469|ec|bf|ae",
  "d7|73c5|83|86|63a2|9c|b9|88|55aa|e0|e1|b5|9f|6264|6d80|6240|5031|5032|5033|5034|4254|4255|23e383",
  "2ad7b1|e7|a7|ab|a3|a0|a1|9b|fb|75a1|a6|a5|af|a2|8e|4dbb|53ab|53ac|61a7|467e|465c|7373|63c0|67c8|4487",
  "4282|56aa|56bb|e2|6924|8f|81|fe|40ff|20ffff",
].flatMap((line) => line.split("|"))

export const webmCodecs = [
  "A_OPUS|A_OPUS/EXPERIMENTAL|A_VORBIS|A_AAC|A_AAC/MPEG4/LC|A_AAC/MPEG2/LC/SBR|A_MPEG/L3|A_MPEG/L2",
  "A_MPEG/L1|A_AC3|A_EAC3|A_DTS|A_FLAC|A_PCM/INT/LIT|A_PCM/INT/BIG|A_PCM/FLOAT/IEEE|A_MS/ACM",
  "A_QUICKTIME|A_QUICKTIME/QDM2|A_REAL/14_4|A_TTA1|A_WAVPACK4|A_TRUEHD|A_MLP|V_VP8|V_VP9",
  "V_MS/VFW/FOURCC|V_MJPEG|S_TEXT/UTF8|D_WEBVTT/SUBTITLES|A_ALAC|A_UNKNOWN",
].flatMap((line) => line.split("|"))

/** Chunks that decoders read in a special way, or skip. */
export const chunkNames = [
  "fmt |data|fact|LIST|list|ds64|RIFF|RIFX|WAVE|ID3 |id3 |bext|cue |SMV0|XMA2|JUNK|junk|PAD |FLLR|smpl",
  "iXML|axml|elm1|DATA|\0\0\0\0|xxxx|fmt\0|slnt",
].flatMap((line) => line.split("|"))

/** Format tags of WAVE, of the codecs that ffmpeg plays. */
export const waveTags = [
  0x01, 0x02, 0x03, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x10, 0x11, 0x15, 0x16, 0x17, 0x20, 0x22, 0x28, 0x31, 0x32, 0x38,
  0x40, 0x41, 0x42, 0x45, 0x50, 0x55, 0x57, 0x61, 0x62, 0x64, 0x69, 0x70, 0x75, 0x83, 0x92, 0xff, 0x111, 0x130, 0x135,
  0x160, 0x161, 0x162, 0x163, 0x165, 0x166, 0x180, 0x200, 0x215, 0x216, 0x270, 0x401, 0x402, 0x500, 0x501, 0x564c,
  0x566f, 0x594a, 0x674f, 0x6750, 0x684d, 0x706d, 0x729a, 0x77a1, 0x1600, 0x1602, 0x1610, 0x2000, 0x2001, 0x2048,
  0x4143, 0x4201, 0x4f50, 0xa106, 0xa109, 0xf1ac, 0xfffe, 0xffff,
] as const

/** Numbers at which readers of files go wrong. */
export const numbers = [
  0, 1, 2, 3, 4, 7, 8, 9, 10, 15, 16, 20, 100, 127, 128, 255, 256, 960, 1000, 1024, 4096, 8000, 16_000, 48_000, 65_535,
  65_536, 90_000, 1_000_000, 0x7fff_ffff, 0x8000_0000, 0xffff_fff0, 0xffff_ffff,
] as const
