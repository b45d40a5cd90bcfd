// LangChain's image tool, unchanged but for its base URL and key. The service has KILN_OPENAI_API=on.
import { DallEAPIWrapper } from "@langchain/openai"

const { KILN_API_KEY: apiKey = "", KILN_URL: baseUrl = "http://127.0.0.1:8787" } = process.env
const draw = new DallEAPIWrapper({ baseUrl: `${baseUrl}/openai/v1`, apiKey })

const url: unknown = await draw.invoke("A red kiln")
const image = await fetch(String(url))
console.log(image.headers.get("content-type"))
