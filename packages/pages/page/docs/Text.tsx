/** A text of the OpenAPI document: `code` in backticks, and paragraphs. */
export const Text = ({ children }: { readonly children: string }) => (
  <>
    {children.split(/\n\n+/).map((paragraph, n) => (
      <p key={n}>
        <Inline>{paragraph}</Inline>
      </p>
    ))}
  </>
)

export const Inline = ({ children }: { readonly children: string }) => (
  <>{children.split("`").map((part, n) => (n % 2 === 1 ? <code key={n}>{part}</code> : part))}</>
)
