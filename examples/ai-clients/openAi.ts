// The official openai client, unchanged but for its base URL and key. The service has KILN_OPENAI_API=on.
import OpenAI from "openai"

const { KILN_API_KEY: apiKey = "", KILN_URL: baseUrl = "http://127.0.0.1:8787" } = process.env
const openai = new OpenAI({ baseURL: `${baseUrl}/openai/v1`, apiKey })

const speech = await openai.audio.speech.create({ model: "tts-1", voice: "nova", input: "Hello from kiln." })
console.log(speech.headers.get("content-type"))

const file = new File([await speech.arrayBuffer()], "hello.mp3")
const { text } = await openai.audio.transcriptions.create({ model: "whisper-1", file })
console.log(text)

const { data = [] } = await openai.images.generate({ model: "dall-e-3", prompt: "A red kiln" })
console.log(data.length, typeof data[0]?.url)
