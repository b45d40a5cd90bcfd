/** Where the lines go to and as whom. `key` may be a shell variable, for pages that have no key to show. */
export interface CurlTarget {
  readonly url: string
  readonly key: string
  /** A WAV file; quoted here. */
  readonly wav: string
}

/** As one word of a shell. */
const quoted = (text: string): string => (/^[\w./:@%+=-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`)

/** The value of a field of the JSON that comes in. */
const field = (name: string): string => `sed 's/.*"${name}":"\\([^"]*\\)".*/\\1/'`

/**
 * One line for each kind of job that needs no other, for sh and bash and with nothing but curl and
 * sed: the file's way in, the job, polling every 2 seconds until it is finished, and the result.
 * Idempotency keys hold the second, so that a line pasted again makes a new job.
 */
export const curlLines = ({ key, url, wav }: CurlTarget): ReadonlyArray<string> => {
  const authorization = `-H "Authorization: Bearer ${key}"`
  const json = `-H "Content-Type: application/json"`
  const create = (kind: string): string => `${authorization} ${json} -H "Idempotency-Key: ${kind}-$(date +%s)"`
  const finished = (path: string): string =>
    `while job=$(curl -fsS "${url}${path}/$id" ${authorization}) && echo "$job" | grep -Eq '"status":"(queued|processing)"'; do sleep 2; done`
  const download = (name: string, file: string): string =>
    `curl -fsS -o ${file} "$(echo "$job" | ${field(name)})" && ls -l ${file}`
  return [
    `curl -fsS ${url}/v1/audio/uploads ${authorization} ${json} -d '{"format":"wav","declared_seconds":4.1}' | (read -r upload; ` +
      `curl -fsS -T ${quoted(wav)} -H "Content-Type: audio/wav" "$(echo "$upload" | ${field("upload_url")})" && ` +
      `curl -fsS ${url}/v1/audio/transcriptions ${create("transcription")} -d "$(echo "$upload" | sed 's/.*"id":"\\([^"]*\\)".*/{"upload_id":"\\1"}/')") | ` +
      `${field("id")} | (read -r id; ${finished("/v1/jobs")}; echo "$job")`,
    `curl -fsS ${url}/v1/audio/speech ${create("speech")} -d '{"input":"Hello from kiln."}' | ` +
      `${field("id")} | (read -r id; ${finished("/v1/jobs")}; ${download("audio_url", "speech.mp3")})`,
    `curl -fsS ${url}/v1/images/generations ${create("image")} -d '{"prompt":"A red kiln"}' | ` +
      `${field("id")} | (read -r id; ${finished("/v1/images/jobs")}; ${download("image_url", "image.png")})`,
  ]
}
