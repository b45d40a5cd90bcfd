import type { Recording } from "./Recipe.ts"

/** Runs in a page of a browser: records a WAV file, or the fake microphone, and returns the recording in base64. */
export const recordInPage = async (recording: Recording, wavBase64: string, seconds: number): Promise<string> => {
  const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))
  const stream = new MediaStream()
  let start = () => {}
  if (recording.isMicrophone === true) {
    const microphone = await navigator.mediaDevices.getUserMedia({ audio: true })
    for (const track of microphone.getTracks()) stream.addTrack(track)
  } else {
    const context = new AudioContext()
    await context.resume()
    const bytes = Uint8Array.from(atob(wavBase64), (char) => char.charCodeAt(0))
    const player = context.createBufferSource()
    player.buffer = await context.decodeAudioData(bytes.buffer)
    const destination = context.createMediaStreamDestination()
    player.connect(destination)
    start = () => player.start()
    for (const track of destination.stream.getTracks()) stream.addTrack(track)
  }
  if (recording.withVideo === true) {
    const canvas = document.createElement("canvas")
    canvas.width = 64
    canvas.height = 48
    const brush = canvas.getContext("2d")
    setInterval(() => {
      if (brush === null) return
      brush.fillStyle = `hsl(${(Date.now() / 5) % 360} 80% 50%)`
      brush.fillRect(0, 0, 64, 48)
    }, 100)
    for (const track of canvas.captureStream(10).getTracks()) stream.addTrack(track)
  }
  const recorder = new MediaRecorder(stream, {
    mimeType: recording.mimeType,
    ...(recording.bitsPerSecond === undefined ? {} : { audioBitsPerSecond: recording.bitsPerSecond }),
  })
  const parts: Array<Blob> = []
  recorder.addEventListener("dataavailable", ({ data }) => parts.push(data))
  const stopped = new Promise((resolve) => recorder.addEventListener("stop", resolve))
  start()
  recorder.start(recording.sliceMs)
  await pause(recording.hasPause === true ? seconds * 500 : seconds * 1000)
  if (recording.hasPause === true) {
    recorder.pause()
    await pause(400)
    recorder.resume()
    await pause(seconds * 500)
  }
  recorder.stop()
  await stopped
  const bytes = new Uint8Array(await new Blob(parts).arrayBuffer())
  let text = ""
  for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192))
  return btoa(text)
}
