import { useState } from "preact/hooks"
import { type Language, languages, requestCode, type SampleRequest } from "./requestCode.ts"

/** Copies a text, and says so for a moment. */
export const CopyButton = ({ label = "Copy", text }: { readonly text: string; readonly label?: string }) => {
  const [isCopied, setCopied] = useState(false)
  const copy = async (): Promise<void> => {
    await navigator.clipboard.writeText(text)
    setCopied(true)
    setTimeout(() => setCopied(false), 1_500)
  }
  return (
    <button type="button" class="small" onClick={() => void copy()}>
      {isCopied ? "Copied" : label}
    </button>
  )
}

const remembered = "kiln code language"

const readLanguage = (): Language => languages.find((name) => name === localStorage.getItem(remembered)) ?? "curl"

/** A request as curl, TypeScript or Python. The language is remembered. */
export const CodeSample = ({ request }: { readonly request: SampleRequest }) => {
  const [language, setLanguage] = useState(readLanguage)
  const code = requestCode(language, request)
  const choose = (name: Language): void => {
    localStorage.setItem(remembered, name)
    setLanguage(name)
  }
  return (
    <div class="code">
      <div class="code-bar">
        <div class="toggle" role="group" aria-label="Language">
          {languages.map((name) => (
            <button type="button" key={name} aria-pressed={name === language} onClick={() => choose(name)}>
              {name}
            </button>
          ))}
        </div>
        <CopyButton text={code} />
      </div>
      <pre tabIndex={0} role="region" aria-label={`Request in ${language}`}>
        <code>{code}</code>
      </pre>
    </div>
  )
}
