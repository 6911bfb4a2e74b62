package catalog

import (
	"strings"
	"testing"
	"time"
)

func knows(names ...string) func(string) bool {
	known := make(map[string]bool, len(names))
	for _, name := range names {
		known[name] = true
	}
	return func(name string) bool { return known[name] }
}

func TestMatch(t *testing.T) {
	for _, tt := range []struct {
		model string
		known string // names, between spaces
		want  string // empty for none
	}{
		// OpenAI
		{"gpt-4o", "gpt-4o gpt-4", "gpt-4o"},
		{"gpt-4o", "gpt-4 gpt-4o-mini", ""},
		{"gpt-4o-mini", "gpt-4o gpt-4", ""},
		{"gpt-4o-mini-2024-07-18", "gpt-4o gpt-4o-mini", "gpt-4o-mini"},
		{"gpt-4o-mini-2024-07-18", "gpt-4o gpt-4", ""},
		{"gpt-4o-2024-08-06", "gpt-4o gpt-4o-2024-05-13", "gpt-4o"},
		{"gpt-4o-2024-08-06", "gpt-4o gpt-4o-2024-08-06", "gpt-4o-2024-08-06"},
		{"chatgpt-4o-latest", "gpt-4o chatgpt-4o", "chatgpt-4o"},
		{"gpt-4.1-nano-2025-04-14", "gpt-4.1 gpt-4.1-nano gpt-4", "gpt-4.1-nano"},
		{"gpt-4.1-2025-04-14", "gpt-4", ""},
		{"gpt-4.5-preview-2025-02-27", "gpt-4.5 gpt-4.5-preview", "gpt-4.5-preview"},
		{"gpt-4-turbo-2024-04-09", "gpt-4 gpt-4-turbo", "gpt-4-turbo"},
		{"gpt-4-0613", "gpt-4 gpt-4o", "gpt-4"},
		{"gpt-4-32k-0613", "gpt-4", ""},
		{"gpt-4-1106-preview", "gpt-4", ""},
		{"gpt-3.5-turbo-0125", "gpt-3.5-turbo", "gpt-3.5-turbo"},
		{"gpt-3.5-turbo-16k", "gpt-3.5-turbo", ""},
		{"gpt-3.5-turbo-instruct-0914", "gpt-3.5-turbo", ""},
		{"gpt-5", "gpt-4 gpt-5-mini", ""},
		{"gpt-5-mini-2025-08-07", "gpt-5 gpt-5-mini", "gpt-5-mini"},
		{"o1-2024-12-17", "o1 o1-mini", "o1"},
		{"o1-mini-2024-09-12", "o1", ""},
		{"o3-pro-2025-06-10", "o3 o3-pro", "o3-pro"},
		{"text-embedding-ada-002", "text-embedding-ada", "text-embedding-ada"},
		{"text-embedding-3-small", "text-embedding text-embedding-3", ""},
		{"davinci-002", "davinci", "davinci"},
		{"tts-1-1106", "tts-1 tts", "tts-1"},
		{"whisper-1", "whisper", ""},
		{"gpt-4o-realtime-preview-2024-12-17", "gpt-4o-realtime gpt-4o-realtime-preview", "gpt-4o-realtime-preview"},

		// Fine-tunes
		{"ft:gpt-4o-mini-2024-07-18:my-org:custom:id", "gpt-4o-mini", ""},
		{"ft:gpt-4o-mini-2024-07-18:my-org:custom:id", "gpt-4o-mini ft:gpt-4o-mini", "ft:gpt-4o-mini"},
		{"ft:gpt-4o-mini-2024-07-18:my-org::id", "ft ft:gpt-4o", "ft"},
		{"ft:gpt-3.5-turbo-0125:org:name:7p4l", "ft:gpt-3.5-turbo ft:gpt-3.5-turbo-0125:org", "ft:gpt-3.5-turbo-0125:org"},
		{"tunedModels/name-gen-abc123", "name-gen-abc123", "name-gen-abc123"},

		// Anthropic
		{"claude-opus-4-1", "claude-opus-4", ""},
		{"claude-opus-4-1-20250805", "claude-opus-4", ""},
		{"claude-opus-4-1-20250805", "claude-opus-4 claude-opus-4-1", "claude-opus-4-1"},
		{"claude-opus-4-20250514", "claude-opus-4 claude-opus-4-1", "claude-opus-4"},
		{"claude-sonnet-4-5-20250929", "claude-sonnet-4 claude-sonnet-4-5", "claude-sonnet-4-5"},
		{"claude-haiku-4-5", "claude-haiku-4", ""},
		{"claude-3-5-sonnet-latest", "claude-3-5-sonnet claude-3", "claude-3-5-sonnet"},
		{"claude-3-opus-20240229", "claude-3 claude-3-opus", "claude-3-opus"},
		{"claude-3-7-sonnet-20250219", "claude-3", ""},
		{"claude-2.1", "claude-2 claude", ""},

		// Gemini
		{"models/gemini-2.5-pro", "gemini-2.5-pro", "gemini-2.5-pro"},
		{"models/gemini-2.5-pro", "gemini-2.5-pro models/gemini-2.5-pro", "models/gemini-2.5-pro"},
		{"gemini-2.5-pro", "models/gemini-2.5-pro", ""},
		{"gemini-1.5-pro-002", "gemini-1.5-pro", "gemini-1.5-pro"},
		{"models/gemini-1.5-flash-latest", "gemini-1.5-flash", "gemini-1.5-flash"},
		{"gemini-1.5-flash-8b-001", "gemini-1.5-flash gemini-1.5-flash-8b", "gemini-1.5-flash-8b"},
		{"gemini-1.5-flash-8b", "gemini-1.5-flash", ""},
		{"gemini-2.5-flash-lite", "gemini-2.5-flash", ""},
		{"gemini-2.0-flash-001", "gemini-2.0-flash", "gemini-2.0-flash"},
		{"gemini-2.5-flash-preview-05-20", "gemini-2.5-flash gemini-2.5-flash-preview", ""},
		{"gemini-exp-1206", "gemini-exp", "gemini-exp"},
		{"text-embedding-004", "text-embedding", "text-embedding"},
		{"gemma-3-27b-it", "gemma-3 gemma-3-27b", ""},

		// Vertex
		{"publishers/google/models/gemini-2.0-flash-001", "gemini-2.0-flash", "gemini-2.0-flash"},
		{"projects/p/locations/us-central1/publishers/google/models/gemini-2.5-pro", "gemini-2.5-pro", "gemini-2.5-pro"},
		{"projects/p/locations/global/publishers/anthropic/models/claude-opus-4-1@20250805", "claude-opus-4 claude-opus-4-1", "claude-opus-4-1"},
		{"claude-3-5-sonnet-v2@20241022", "claude-3-5-sonnet", "claude-3-5-sonnet"},
		{"claude-3-5-sonnet-v2@20241022", "claude-3-5-sonnet claude-3-5-sonnet-v2", "claude-3-5-sonnet-v2"},
		{"mistral-large@2407", "mistral-large", "mistral-large"},
		{"publishers/meta/models/meta/llama-3.1-405b", "llama-3.1-405b", "llama-3.1-405b"},
		{"publishers/meta/models/meta/llama-3.1-405b", "llama-3.1-405b meta/llama-3.1-405b", "meta/llama-3.1-405b"},
		{"publishers//models/gemini-2.5-pro", "gemini-2.5-pro", ""},
		{"publishers/google/models", "models google", ""},
		{"subpublishers/google/models/gemini", "gemini", ""},
		{"a/publishers/b/c/publishers/google/models/gemini", "gemini", "gemini"},
		{"publishers/google/models/publishers/x/models/gemini", "gemini", ""},
		{"projects/p/locations/l/endpoints/123", "123 endpoints", ""},

		// Bedrock
		{"anthropic.claude-3-5-sonnet-20241022-v2:0", "anthropic.claude-3-5-sonnet", "anthropic.claude-3-5-sonnet"},
		{"anthropic.claude-3-5-sonnet-20241022-v2:0", "anthropic.claude-3-5-sonnet anthropic.claude-3-5-sonnet-20241022", "anthropic.claude-3-5-sonnet-20241022"},
		{"anthropic.claude-3-5-sonnet-20241022-v2:0", "claude-3-5-sonnet", ""},
		{"us.anthropic.claude-sonnet-4-20250514-v1:0", "us.anthropic.claude-sonnet-4", "us.anthropic.claude-sonnet-4"},
		{"us.anthropic.claude-sonnet-4-20250514-v1:0", "anthropic.claude-sonnet-4", ""},
		{"anthropic.claude-v2:1", "anthropic.claude anthropic.claude-v2", "anthropic.claude-v2"},
		{"meta.llama3-1-70b-instruct-v1:0", "meta.llama3-1-70b-instruct meta.llama3", "meta.llama3-1-70b-instruct"},
		{"amazon.nova-pro-v1:0:300k", "amazon.nova-pro", "amazon.nova-pro"},
		{"amazon.titan-embed-text-v2:0", "amazon.titan-embed-text", "amazon.titan-embed-text"},
		{"arn:aws:bedrock:us-east-1::foundation-model/anthropic.claude-3-haiku-20240307-v1:0", "anthropic.claude-3-haiku", "anthropic.claude-3-haiku"},

		// Groq and others of its kind
		{"llama3-70b-8192", "llama3-70b", ""},
		{"llama3-8b-8192", "llama3", ""},
		{"mixtral-8x7b-32768", "mixtral-8x7b", ""},
		{"llama-3.3-70b-versatile", "llama-3.3-70b", ""},
		{"openai/gpt-oss-120b", "gpt-oss-120b gpt-oss", "gpt-oss-120b"},
		{"gpt-oss-120b", "gpt-oss", ""},
		{"moonshotai/kimi-k2-instruct-0905", "kimi-k2-instruct kimi-k2", "kimi-k2-instruct"},
		{"mistral-large-2411", "mistral-large", ""},
		{"mistral-large-2407", "mistral-large", ""},
		{"mistral-large-latest", "mistral-large", "mistral-large"},
		{"grok-2-1212", "grok-2 grok", "grok-2"},
		{"grok-2-vision-1212", "grok-2", ""},
		{"deepseek-r1-0528", "deepseek-r1", "deepseek-r1"},
		{"whisper-large-v3", "whisper-large", "whisper-large"},
		{"whisper-large-v3-turbo", "whisper-large", ""},
		{"whisper-large-v3-turbo", "whisper-large-v3", ""},

		// OpenRouter
		{"openai/gpt-4o", "gpt-4o", "gpt-4o"},
		{"openai/gpt-4o", "gpt-4o openai/gpt-4o", "openai/gpt-4o"},
		{"openai/gpt-4o-2024-08-06:free", "gpt-4o", "gpt-4o"},
		{"openai/gpt-4o-2024-08-06", "openai/gpt-4o gpt-4o", "openai/gpt-4o"},
		{"openai/gpt-4o-2024-08-06", "openai/gpt-4o gpt-4o-2024-08-06", "gpt-4o-2024-08-06"},
		{"anthropic/claude-3.5-sonnet:beta", "claude-3.5-sonnet", "claude-3.5-sonnet"},
		{"deepseek/deepseek-r1-0528:free", "deepseek-r1 deepseek-r1-0528:free", "deepseek-r1-0528:free"},
		{"openrouter/openai/gpt-4o", "gpt-4o", ""},
		{"openrouter/openai/gpt-4o", "openai/gpt-4o", "openai/gpt-4o"},
		{"openrouter/auto", "openrouter", ""},
		{"models/openai/gpt-4o", "gpt-4o", "gpt-4o"},
		{"openai/models/gpt-4o", "gpt-4o", ""},
		{"models/models/gpt-4o", "gpt-4o", "gpt-4o"},

		// Ollama
		{"llama3:8b", "llama3", "llama3"},
		{"llama3.1:70b-instruct-q4_K_M", "llama3 llama3.1", "llama3.1"},
		{"llama3.1:70b-instruct-q4_K_M", "llama3.1 llama3.1:70b", "llama3.1"},
		{"qwen2.5-coder:latest", "qwen2.5 qwen2.5-coder", "qwen2.5-coder"},
		{"hf.co/bartowski/Llama-3.2-3B-Instruct-GGUF:Q4_K_M", "hf.co/bartowski/Llama-3.2-3B-Instruct-GGUF", "hf.co/bartowski/Llama-3.2-3B-Instruct-GGUF"},
		{"localhost:5000/llama3:8b", "llama3", "llama3"},
		{"llama3:8b@sha256:0123", "llama3 llama3:8b", "llama3:8b"},

		// Tags
		{"m-2024-01-01", "m", "m"},
		{"m-1999-12-31", "m", "m"},
		{"m-2024-02-31", "m", "m"}, // no day of a calendar, and yet a date by its form
		{"m-2024-13-01", "m", ""},
		{"m-2024-00-01", "m", ""},
		{"m-2024-01-00", "m", ""},
		{"m-2024-01-32", "m", ""},
		{"m-2124-01-01", "m", ""},
		{"m-1899-01-01", "m", ""},
		{"m-2024-1-01", "m", ""},
		{"m-2024-01", "m", ""},
		{"m-2024", "m", ""},
		{"m-01-01", "m", ""},
		{"m-2024-01-01", "m m-2024", "m"},
		{"m-2024.01.01", "m", ""},
		{"m-20240101", "m", "m"},
		{"m-20241301", "m", ""},
		{"m-20240132", "m", ""},
		{"m-18990101", "m", ""},
		{"m-202401011", "m", ""},
		{"m-240101", "m", ""},
		{"m-0101", "m", "m"},
		{"m-1231", "m", "m"},
		{"m-0001", "m", ""},
		{"m-0100", "m", ""},
		{"m-1301", "m", ""},
		{"m-0132", "m", ""},
		{"m-1", "m", ""},
		{"m-12", "m", ""},
		{"m-000", "m", "m"},
		{"m-12a", "m", ""},
		{"m-١٢٣", "m", ""},
		{"m-latest", "m", "m"},
		{"m-LATEST", "m", ""},
		{"m-latest2", "m", ""},
		{"m-v1", "m", "m"},
		{"m-v12345678901234567890", "m", "m"},
		{"m-v", "m", ""},
		{"m-V1", "m", ""},
		{"m-v1.5", "m", ""},
		{"m-v1a", "m", ""},
		{"m-", "m", ""},
		{"m--001", "m", ""},
		{"m--001", "m m-", "m-"},
		{"m-001-", "m", ""},
		{"m-001-002-v3-latest-2024-01-01-0101@x:y", "m", "m"},
		{"m-001-002-v3-latest-2024-01-01-0101@x:y", "m m-001-002-v3 m-001-002-v3-latest-2024", "m-001-002-v3"},
		{"m-001-x-002", "m", ""},
		{"m-001-x-002", "m m-001-x", "m-001-x"},
		{"m-001-preview:free", "m", ""},
		{"m:", "m", "m"},
		{"m@", "m", "m"},
		{"m::x", "m m:", "m:"},
		{"m:a-b", "m", "m"},
		{"m:a-001", "m m:a", "m:a"},
		{"m:a/b", "m b", "m"},
		{"m:a/longer", "m longer", "longer"},
		{"M-001", "m", ""},
		{"mm", "m", ""},
		{"m001", "m", ""},

		// No name
		{"", "", ""},
		{":x", "", ""},
		{"-001", "", ""},
		{"models/", "", ""},
		{"provider/", "", ""},
		{"/m", "m", ""},
		{"//m", "m /m", ""},
		{"models//m", "m", ""},
		{"*", "*", ""},
		{"*:x", "*", ""},
		{"*-latest", "*", ""},
		{"models/*", "*", ""},
		{"openai/*", "* openai/*", "openai/*"},
		{"unheard-of", "* m", ""},
	} {
		known := strings.Split(tt.known, " ")
		got, ok := Match(tt.model, knows(append(known, "")...))
		if got != tt.want || ok != (tt.want != "") {
			t.Errorf("%q among %q: %q, %v, want %q", tt.model, tt.known, got, ok, tt.want)
		}
	}
}

func TestMatchTakesNoLongNameApart(t *testing.T) {
	long := "m:" + strings.Repeat("x", maxLength-2)
	if got, ok := Match(long, knows("m")); got != "m" || !ok {
		t.Errorf("%d bytes: %q, %v, want the name extended", len(long), got, ok)
	}
	long += "x"
	if got, ok := Match(long, knows("m")); ok {
		t.Errorf("%d bytes: %q, want none", len(long), got)
	}
	if got, ok := Match(long, knows("m", long)); got != long || !ok {
		t.Errorf("%d bytes and known: %v, want itself", len(long), ok)
	}
}

// Names may come from the sender of a request.
func TestMatchIsQuickForHostileNames(t *testing.T) {
	known := knows("m")
	for _, part := range []string{":", "-", "/", "-001", "-latest", "-v1", "-2024-01-01", "publishers/", "publishers/x/", "models/", "a", "-v1111111"} {
		for _, size := range []int{maxLength, 1 << 20} {
			name := strings.Repeat(part, size/len(part))
			took := time.Hour
			for range 5 {
				start := time.Now()
				Match(name, known)
				took = min(took, time.Since(start))
			}
			if took > 20*time.Millisecond {
				t.Errorf("%d bytes of %q: %v", size, part, took)
			}
		}
	}
}

func TestMatchDoesNotAllocate(t *testing.T) {
	known := knows("gpt-4o", "anthropic.claude-3-5-sonnet", "gemini-2.5-pro")
	for _, model := range []string{
		"gpt-4o", "gpt-4o-2024-08-06", "unheard-of", "openai/gpt-4o-2024-08-06:free",
		"anthropic.claude-3-5-sonnet-20241022-v2:0",
		"projects/p/locations/l/publishers/google/models/gemini-2.5-pro",
		strings.Repeat("-v1", 300),
	} {
		if n := testing.AllocsPerRun(100, func() { Match(model, known) }); n != 0 {
			t.Errorf("%q: %v allocations", model, n)
		}
	}
}

func BenchmarkMatch(b *testing.B) {
	known := knows("gpt-4o", "anthropic.claude-3-5-sonnet", "gemini-2.5-pro")
	for _, model := range []string{
		"gpt-4o", "openai/gpt-4o-2024-08-06:free", "anthropic.claude-3-5-sonnet-20241022-v2:0", "unheard-of",
	} {
		b.Run(model, func(b *testing.B) {
			for b.Loop() {
				Match(model, known)
			}
		})
	}
	b.Run("1 KiB of colons", func(b *testing.B) {
		name := strings.Repeat(":", maxLength)
		for b.Loop() {
			Match(name, known)
		}
	})
}
