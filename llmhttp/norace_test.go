//go:build !race

package llmhttp

// longBody is how long a body is that stands for one without end.
const longBody = 256 << 20
