import { useEffect, useRef } from "preact/hooks"
import type { Guide } from "../documentation.ts"

/** A guide, rendered when the page was compiled. */
export const GuideView = ({ guide, heading }: { readonly guide: Guide; readonly heading: string | undefined }) => {
  const place = useRef<HTMLElement>(null)
  useEffect(() => {
    if (heading !== undefined) document.getElementById(`${guide.name}/${heading}`)?.scrollIntoView()
  }, [heading, guide.name])
  return (
    <article class="guide">
      {guide.headings.length > 2 && (
        <nav class="toc" aria-label="On this page">
          <p>On this page</p>
          <ul>
            {guide.headings.map(({ id, text }) => (
              <li key={id}>
                <a href={`#/guides/${guide.name}/${id}`} dangerouslySetInnerHTML={{ __html: text }} />
              </li>
            ))}
          </ul>
        </nav>
      )}
      <article ref={place} class="prose" dangerouslySetInnerHTML={{ __html: guide.html }} />
    </article>
  )
}
