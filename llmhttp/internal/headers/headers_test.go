package headers

import (
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp/internal/headerstest"
)

const openAIHeaders = `
	Date: Sun, 04 Oct 2026 12:00:00 GMT
	Content-Type: application/json
	Openai-Organization: org-1
	Openai-Processing-Ms: 412
	Openai-Version: 2020-10-01
	X-Request-Id: req_1
	X-Ratelimit-Limit-Requests: 5000
	X-Ratelimit-Limit-Tokens: 150000
	X-Ratelimit-Remaining-Requests: 4999
	X-Ratelimit-Remaining-Tokens: 149984
	X-Ratelimit-Reset-Requests: 12ms
	X-Ratelimit-Reset-Tokens: 6m0s
	Server: cloudflare`

const anthropicHeaders = `
	Date: Sun, 04 Oct 2026 12:00:00 GMT
	Content-Type: application/json
	Request-Id: req_1
	Anthropic-Organization-Id: 1
	Anthropic-Ratelimit-Requests-Limit: 1000
	Anthropic-Ratelimit-Requests-Remaining: 999
	Anthropic-Ratelimit-Requests-Reset: 2026-10-04T12:00:01Z
	Anthropic-Ratelimit-Input-Tokens-Limit: 2000000
	Anthropic-Ratelimit-Input-Tokens-Remaining: 1993000
	Anthropic-Ratelimit-Input-Tokens-Reset: 2026-10-04T12:00:02Z
	Anthropic-Ratelimit-Output-Tokens-Limit: 400000
	Anthropic-Ratelimit-Output-Tokens-Remaining: 399000
	Anthropic-Ratelimit-Output-Tokens-Reset: 2026-10-04T12:00:03Z
	Anthropic-Ratelimit-Tokens-Limit: 2400000
	Anthropic-Ratelimit-Tokens-Remaining: 2392000
	Anthropic-Ratelimit-Tokens-Reset: 2026-10-04T12:00:02Z`

func TestLimits(t *testing.T) {
	tests := []struct{ name, host, headers, want string }{
		{"nothing", "api.openai.com", "Content-Type: application/json", ""},
		{"OpenAI", "api.openai.com", openAIHeaders, "RPM 5000 4999 12ms, TPM 150000 149984 6m0s"},
		{"OpenAI, by any way to write names", "", "x-ratelimit-limit-requests: 60\nX-RATELIMIT-REMAINING-REQUESTS: 59\nx-RateLimit-Reset-requests: 1s", "RPM 60 59 1s"},
		{"OpenAI, requests of a day by their reset", "", "X-Ratelimit-Limit-Requests: 200\nX-Ratelimit-Remaining-Requests: 199\nX-Ratelimit-Reset-Requests: 7m12s", "RPD 200 199 7m12s"},
		{"OpenAI, requests of a day by how they refill", "", "X-Ratelimit-Limit-Requests: 10000\nX-Ratelimit-Remaining-Requests: 9999\nX-Ratelimit-Reset-Requests: 8.64s", "RPD 10000 9999 8.64s"},
		{"a refill in nine tenths of a day", "", "X-Ratelimit-Limit-Requests: 10000\nX-Ratelimit-Remaining-Requests: 9999\nX-Ratelimit-Reset-Requests: 7.776s", "RPD 10000 9999 7.776s"},
		{"a refill in less", "", "X-Ratelimit-Limit-Requests: 10000\nX-Ratelimit-Remaining-Requests: 9999\nX-Ratelimit-Reset-Requests: 7.775s", "RPM 10000 9999 7.775s"},
		{"65 s are a minute", "", "X-Ratelimit-Limit-Requests: 20\nX-Ratelimit-Remaining-Requests: 0\nX-Ratelimit-Reset-Requests: 65s", "RPM 20 0 1m5s"},
		{"more than that are a day", "", "X-Ratelimit-Limit-Requests: 20\nX-Ratelimit-Remaining-Requests: 0\nX-Ratelimit-Reset-Requests: 65.001s", "RPD 20 0 1m5.001s"},
		{"nothing used tells no rate", "", "X-Ratelimit-Limit-Requests: 20\nX-Ratelimit-Remaining-Requests: 20\nX-Ratelimit-Reset-Requests: 0s", "RPM 20 20 -"},
		{"OpenAI, a project's tokens are the tighter ones", "", "X-Ratelimit-Limit-Tokens: 1000\nX-Ratelimit-Remaining-Tokens: 900\nX-Ratelimit-Reset-Tokens: 6s\nX-Ratelimit-Limit-Project-Tokens: 500\nX-Ratelimit-Remaining-Project-Tokens: 100\nX-Ratelimit-Reset-Project-Tokens: 48s", "TPM 500 100 48s"},
		{"OpenAI, a project's tokens are not the tighter ones", "", "X-Ratelimit-Limit-Tokens: 1000\nX-Ratelimit-Remaining-Tokens: 10\nX-Ratelimit-Reset-Tokens: 59s\nX-Ratelimit-Limit-Project-Tokens: 5000\nX-Ratelimit-Remaining-Project-Tokens: 4000\nX-Ratelimit-Reset-Project-Tokens: 12s", "TPM 1000 10 59s"},
		{"OpenAI, only the project's", "", "X-Ratelimit-Limit-Project-Tokens: 5000\nX-Ratelimit-Remaining-Project-Tokens: 4000\nX-Ratelimit-Reset-Project-Tokens: 12s", "TPM 5000 4000 12s"},
		{"OpenAI, a name that nobody explains", "", "X-Ratelimit-Limit-Tokens_usage_based: 5000\nX-Ratelimit-Limit-Images: 5", ""},
		{"tokens are those of a minute, however long they take", "api.groq.com", "X-Ratelimit-Limit-Tokens: 100\nX-Ratelimit-Remaining-Tokens: 99\nX-Ratelimit-Reset-Tokens: 864s", "TPM 100 99 14m24s"},

		{"Groq, by its host", "api.groq.com", "X-Ratelimit-Limit-Requests: 14400\nX-Ratelimit-Remaining-Requests: 14370\nX-Ratelimit-Reset-Requests: 1s\nX-Ratelimit-Limit-Tokens: 18000\nX-Ratelimit-Remaining-Tokens: 17997\nX-Ratelimit-Reset-Tokens: 7.66s", "TPM 18000 17997 7.66s, RPD 14400 14370 1s"},
		{"Groq, by its host with a port", "API.Groq.com:443", "X-Ratelimit-Remaining-Requests: 5", "RPD - 5 -"},
		{"Groq, by its headers", "gateway.internal", "X-Groq-Region: us-west-1\nX-Ratelimit-Remaining-Requests: 5", "RPD - 5 -"},
		{"not Groq", "notgroq.com", "X-Ratelimit-Remaining-Requests: 5", "RPM - 5 -"},
		{"Groq's doc", "groq.com", "X-Ratelimit-Limit-Requests: 14400\nX-Ratelimit-Remaining-Requests: 14370\nX-Ratelimit-Reset-Requests: 2m59.56s", "RPD 14400 14370 2m59.56s"},

		{"Azure, by its host", "me.openai.azure.com", "X-Ratelimit-Limit-Requests: 20\nX-Ratelimit-Remaining-Requests: 19\nX-Ratelimit-Reset-Requests: 1\nX-Ratelimit-Limit-Tokens: 20000\nX-Ratelimit-Remaining-Tokens: 19000\nX-Ratelimit-Reset-Tokens: 60", "RPM - 19 1s, TPM 20000 19000 1m0s"},
		{"Azure, by the management's host", "me.azure-api.net", "X-Ratelimit-Limit-Requests: 20\nX-Ratelimit-Remaining-Requests: 19", "RPM - 19 10s"},
		{"Azure, by the region", "gateway", "X-Ms-Region: East US\nX-Ratelimit-Limit-Requests: 20\nX-Ratelimit-Remaining-Requests: 0\nX-Ratelimit-Reset-Requests: 60", "RPM - 0 10s"},
		{"Azure, by the session", "gateway", "Azureml-Model-Session: d1\nX-Ratelimit-Remaining-Requests: 7\nX-Ratelimit-Reset-Requests: 10", "RPM - 7 10s"},
		{"Azure, by the request", "gateway", "Apim-Request-Id: 1\nX-Ratelimit-Limit-Requests: 20", ""},
		{"Azure's Responses", "me.openai.azure.com", "X-Ratelimit-Limit-Requests: -1\nX-Ratelimit-Remaining-Requests: -1\nX-Ratelimit-Reset-Requests: 0\nX-Ratelimit-Limit-Tokens: -1\nX-Ratelimit-Remaining-Tokens: -1\nX-Ratelimit-Reset-Tokens: 0", ""},

		{"Mistral", "api.mistral.ai", "X-Ratelimit-Limit-Req-Minute: 60\nX-Ratelimit-Remaining-Req-Minute: 59\nX-Ratelimit-Limit-Tokens-Minute: 500000\nX-Ratelimit-Remaining-Tokens-Minute: 499978\nX-Ratelimit-Limit-Tokens-Month: 1000000000\nX-Ratelimit-Remaining-Tokens-Month: 3\nX-Ratelimit-Tokens-Query-Cost: 22", "RPM 60 59 -, TPM 500000 499978 -"},
		{"Mistral, a plan without the model", "api.mistral.ai", "X-Ratelimit-Limit-Req-Minute: 0\nX-Ratelimit-Remaining-Req-Minute: 0", ""},
		{"days by name", "api.cerebras.ai", "X-Ratelimit-Limit-Requests-Day: 14400\nX-Ratelimit-Remaining-Requests-Day: 14399\nX-Ratelimit-Reset-Requests-Day: 33011.38\nX-Ratelimit-Limit-Tokens-Minute: 60000\nX-Ratelimit-Remaining-Tokens-Minute: 59900\nX-Ratelimit-Reset-Tokens-Minute: 11.38\nX-Ratelimit-Limit-Tokens-Day: 1000000\nX-Ratelimit-Remaining-Tokens-Day: 900000", "TPM 60000 59900 11.38s, RPD 14400 14399 9h10m11.38s, TPD 1000000 900000 -"},
		{"more days by name", "", "X-Ratelimit-Limit-Req-Day: 50\nX-Ratelimit-Limit-Requests-Minute: 5\nX-Ratelimit-Limit-Requests-Hour: 7", "RPM 5 - -, RPD 50 - -"},

		{"Anthropic", "api.anthropic.com", anthropicHeaders, "RPM 1000 999 1s, ITPM 2000000 1993000/1000 2s, OTPM 400000 399000/1000 3s"},
		{"Anthropic, the most restrictive limit alone", "api.anthropic.com", "Anthropic-Ratelimit-Tokens-Limit: 80000\nAnthropic-Ratelimit-Tokens-Remaining: 7000\nAnthropic-Ratelimit-Tokens-Reset: 2026-10-04T12:00:55Z", "TPM - 7000/1000 55s"},
		{"Anthropic, beside one of the others", "", "Anthropic-Ratelimit-Tokens-Remaining: 7000\nAnthropic-Ratelimit-Output-Tokens-Limit: 8000", "OTPM 8000 - -"},
		{"Anthropic, what belongs to other limits", "", "Anthropic-Priority-Input-Tokens-Limit: 10000\nAnthropic-Priority-Output-Tokens-Remaining: 10\nAnthropic-Fast-Input-Tokens-Remaining: 1\nAnthropic-Ratelimit-Unified-Reset: 5\nAnthropic-Workspace-Id: w", ""},
		{"Anthropic, a reset that is past", "", "Anthropic-Ratelimit-Requests-Remaining: 3\nAnthropic-Ratelimit-Requests-Reset: 2026-10-04T11:59:59Z", "RPM - 3 -"},
		{"Anthropic, a reset of another zone", "", "Anthropic-Ratelimit-Requests-Remaining: 3\nAnthropic-Ratelimit-Requests-Reset: 2026-10-04T14:00:09.5+02:00", "RPM - 3 9.5s"},

		{"IETF", "", "RateLimit-Policy: \"burst\";q=100;w=60,\"daily\";q=1000;w=86400\nRateLimit: \"burst\";r=50;t=30, \"daily\";r=900;t=3600", "RPM 100 50 30s, RPD 1000 900 1h0m0s"},
		{"IETF, in several fields", "", "RateLimit-Policy: \"burst\";q=100;w=60\nRateLimit-Policy: \"daily\";q=1000;w=86400;pk=:c2VjcmV0:\nRateLimit: \"daily\";r=900", "RPM 100 - -, RPD 1000 900 -"},
		{"IETF, units", "", `RateLimit-Policy: "a";q=10;w=60;qu="requests", "b";q=5;w=60;qu="content-bytes", "c";q=4;w=60;qu="concurrent-requests"`, "RPM 10 - -"},
		{"IETF, windows that are none of ours", "", "RateLimit-Policy: \"s\";q=5;w=1, \"h\";q=50;w=3600, \"n\";q=4\nRateLimit: \"s\";r=0;t=1", ""},
		{"IETF, two of a window", "", "RateLimit-Policy: \"a\";q=100;w=60, \"b\";q=20;w=60\nRateLimit: \"a\";r=3;t=5, \"b\";r=19;t=50", "RPM 20 3 5s"},
		{"IETF, a name with signs", "", "RateLimit-Policy: \"a;q=1,\\\"\" ; q=100 ; w=60\nRateLimit: \"a;q=1,\\\"\"; r=7; t=9", "RPM 100 7 9s"},
		{"IETF, of no policy", "", `RateLimit: "default";r=50;t=30`, ""},
		{"IETF, a reset too far away", "", "RateLimit-Policy: \"d\";q=100;w=86400\nRateLimit: \"d\";r=0;t=90001", "RPD 100 - -"},
		{"IETF, no list", "", `RateLimit-Policy: "burst;q=100;w=60`, ""},
		{"IETF, a list that breaks off", "", `RateLimit-Policy: "b";q=5;w=60, "a`, ""},
		{"IETF, a parameter that breaks off", "", `RateLimit-Policy: "b";q=5;w=60, "a";q="5`, ""},
		{"IETF, a list with something between", "", `RateLimit-Policy: "b";q=5;w=60, "a" junk;q=1`, ""},
		{"IETF, a member without a name", "", `RateLimit-Policy: "b";q=5;w=60, ;q=1`, ""},
		{"IETF, a parameter said twice", "", `RateLimit-Policy: "b";q=5;q=x;w=60`, ""},
		{"IETF, 16 members are read", "", "RateLimit-Policy: " + strings.Repeat(`"a";q=9;w=60, `, 15) + `"b";q=8;w=60, "c";q=7;w=60`, "RPM 8 - -"},
		{"IETF, no numbers", "", `RateLimit-Policy: "a";q=-100;w=60, "b";q=1.5;w=60, "c";q=1e3;w=60, "d";q;w=60, "e";q=;w=60`, ""},
		{"IETF, before it was a list", "", "RateLimit-Limit: 100\nRateLimit-Remaining: 40\nRateLimit-Reset: 30", "RPM - 40 30s"},
		{"IETF, old, with a window", "", "RateLimit-Limit: 100;w=60\nRateLimit-Remaining: 40\nRateLimit-Reset: 30", "RPM 100 40 30s"},
		{"IETF, old, with the window of a day", "", "RateLimit-Limit: 100, 100;w=86400\nRateLimit-Remaining: 40\nRateLimit-Reset: 30", "RPD 100 40 30s"},
		{"IETF, old, with all windows", "", "RateLimit-Limit: 10, 10;w=1, 50;w=60, 1000;w=86400\nRateLimit-Remaining: 4\nRateLimit-Reset: 1", "RPM 50 - -, RPD 1000 - -"},
		{"IETF, old, what is left is of the first", "", "RateLimit-Limit: 50, 10;w=1, 50;w=60\nRateLimit-Remaining: 4\nRateLimit-Reset: 30", "RPM 50 4 30s"},
		{"IETF, old, without what is left", "", "RateLimit-Limit: 50;w=60\nRateLimit-Reset: 30", "RPM 50 - -"},
		{"IETF, old, of who knows which window", "", "RateLimit-Limit: 100\nRateLimit-Remaining: 40\nRateLimit-Reset: 66", ""},
		{"IETF, old and new", "", "RateLimit-Policy: \"a\";q=9;w=60\nRateLimit-Limit: 5;w=60\nRateLimit-Remaining: 0", "RPM 9 - -"},

		{"OpenRouter, a minute", "openrouter.ai", "X-RateLimit-Limit: 20\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1791115230000", "RPM - 0 30s"},
		{"OpenRouter, a day", "openrouter.ai", "X-RateLimit-Limit: 50\nX-RateLimit-Remaining: 1\nX-RateLimit-Reset: 1791158400000", "RPD - 1 12h0m0s"},
		{"in seconds since 1970", "", "X-RateLimit-Limit: 50\nX-RateLimit-Remaining: 1\nX-RateLimit-Reset: 1791115230", "RPM - 1 30s"},
		{"of who knows which window", "", "X-RateLimit-Limit: 50\nX-RateLimit-Remaining: 1", ""},
		{"of a month", "", "X-RateLimit-Limit: 50\nX-RateLimit-Remaining: 1\nX-RateLimit-Reset: 1793707200", ""},
		{"of a window that is over", "", "X-RateLimit-Limit: 50\nX-RateLimit-Remaining: 1\nX-RateLimit-Reset: 1791115199", ""},

		{"the tighter of several", "", "X-Ratelimit-Limit-Tokens: 200\nX-Ratelimit-Limit-Tokens: 100\nX-Ratelimit-Limit-Tokens: lots\nX-Ratelimit-Remaining-Tokens: 50, 30\nX-Ratelimit-Remaining-Tokens: 40\nX-Ratelimit-Reset-Tokens: 1s\nX-Ratelimit-Reset-Tokens: 9s", "TPM 100 30 9s"},
		{"two names for a limit", "", "X-Ratelimit-Limit-Tokens: 200\nX-Ratelimit-Remaining-Tokens: 100\nX-Ratelimit-Reset-Tokens: 9s\nX-Ratelimit-Limit-Tokens-Minute: 300\nX-Ratelimit-Remaining-Tokens-Minute: 100\nX-Ratelimit-Reset-Tokens-Minute: 20s", "TPM 200 100 20s"},
		{"two names for a limit, the longer reset first", "", "X-Ratelimit-Remaining-Tokens: 100\nX-Ratelimit-Reset-Tokens: 20s\nX-Ratelimit-Remaining-Tokens-Minute: 100\nX-Ratelimit-Reset-Tokens-Minute: 9s", "TPM - 100 20s"},
		{"no count, but a reset", "", "X-Ratelimit-Limit-Tokens: -1\nX-Ratelimit-Remaining-Tokens: -1\nX-Ratelimit-Reset-Tokens: 5s", ""},
		{"no comma of a list", "", "X-Ratelimit-Remaining-Tokens: 1,000", ""},
		{"hours without end", "", "X-Ratelimit-Limit-Tokens: 9\nX-Ratelimit-Reset-Tokens: " + strings.Repeat("999999h", 9), ""},
		{"no counts", "", "X-Ratelimit-Limit-Tokens: NaN\nX-Ratelimit-Remaining-Tokens: 1e21\nX-Ratelimit-Limit-Requests: 1.5\nX-Ratelimit-Remaining-Requests: 0x10", ""},
		{"other counts that are none", "", "X-Ratelimit-Limit-Tokens: 1,000\nX-Ratelimit-Remaining-Tokens: +5\nX-Ratelimit-Limit-Requests: 99999999999999999999\nX-Ratelimit-Remaining-Requests:", ""},
		{"one over the largest count", "", "X-Ratelimit-Limit-Tokens: 1099511627777", ""},
		{"whole, though with a point", "", "X-Ratelimit-Limit-Tokens: 40000.0", "TPM 40000 - -"},
		{"no limit", "", "X-Ratelimit-Limit-Tokens: 0\nX-Ratelimit-Remaining-Tokens: 0\nX-Ratelimit-Reset-Tokens: 1s", ""},
		{"a negative limit is not said", "", "X-Ratelimit-Limit-Tokens: -5\nX-Ratelimit-Remaining-Tokens: 6", "TPM - 6 -"},
		{"negative remains are not said", "", "X-Ratelimit-Limit-Tokens: 5\nX-Ratelimit-Remaining-Tokens: -6", "TPM 5 - -"},
		{"a reset alone", "", "X-Ratelimit-Reset-Tokens: 1s\nX-Ratelimit-Reset-Requests: 1s", ""},
		{"a reset of nonsense", "", "X-Ratelimit-Remaining-Tokens: 6\nX-Ratelimit-Reset-Tokens: soon", "TPM - 6 -"},
		{"a negative reset", "", "X-Ratelimit-Remaining-Tokens: 6\nX-Ratelimit-Reset-Tokens: -5", "TPM - 6 -"},
		{"a reset in 25 h", "", "X-Ratelimit-Remaining-Requests: 6\nX-Ratelimit-Reset-Requests: 25h", "RPD - 6 25h0m0s"},
		{"a reset after that", "", "X-Ratelimit-Limit-Requests: 9\nX-Ratelimit-Remaining-Requests: 6\nX-Ratelimit-Reset-Requests: 25h0m1s", ""},
		{"a reset in the year 9999", "", "X-Ratelimit-Limit-Tokens: 9\nX-Ratelimit-Remaining-Tokens: 6\nX-Ratelimit-Reset-Tokens: 9999-12-31T23:59:59Z", ""},
		{"1 KiB is read", "", "X-Ratelimit-Limit-Tokens: " + strings.Repeat("0", 1022) + "77", "TPM 77 - -"},
		{"more is not", "", "X-Ratelimit-Limit-Tokens: " + strings.Repeat("0", 1023) + "77", ""},
		{"16 of a name are read", "", strings.Repeat("X-Ratelimit-Limit-Tokens: 77\n", 15) + "X-Ratelimit-Limit-Tokens: 76\nX-Ratelimit-Limit-Tokens: 75", "TPM 76 - -"},
	}
	for _, test := range tests {
		if got := headerstest.Format(Limits(headerstest.Parse(test.headers), test.host, headerstest.Now)); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

// The largest count saturates at the largest int.
func TestLimitsLargest(t *testing.T) {
	got := Limits(headerstest.Parse("X-Ratelimit-Limit-Tokens: 1099511627776"), "", headerstest.Now).TPM.Limit
	if want := int(min(int64(math.MaxInt), MaxCount)); got != want {
		t.Errorf("got %d, want %d", got, want)
	}
}

// Header names that are not canonical cannot come from net/http, and must not cause a panic.
func TestLimitsOddMap(t *testing.T) {
	h := http.Header{"": {"1"}, "X": nil, "R": {}, "Ratelimit": nil, "Ratelimit-": {""}, "Ratelimits": {"5"},
		"X-Ratelimit-": {"5"}, "X-Ratelimit-Limit": nil, "Anthropic-Ratelimit-": {"5"}, "Anthropic-Ratelimit--Limit": {"5"},
		"X-Ratelimit-Limit-Tokens": {}, "X-Ratelimit-Remaining-Tokens": {}}
	if got := Limits(h, "", headerstest.Now); got != (ratelimit.ProviderLimits{}) {
		t.Errorf("got %+v, want nothing", got)
	}
	if got := Limits(nil, "", headerstest.Now); got != (ratelimit.ProviderLimits{}) {
		t.Errorf("got %+v of no header, want nothing", got)
	}
}

func FuzzLimits(f *testing.F) {
	for _, lines := range []string{
		openAIHeaders, anthropicHeaders,
		"RateLimit-Policy: \"a\\\";q=1,\\\"\" ; q=100 ; w=60, b;w=86400;q=7\nRateLimit: \"a\"; r=7; t=9, b",
		"RateLimit-Limit: 10, 10;w=1, 50;w=60\nRateLimit-Remaining: 4\nRateLimit-Reset: 1",
		"X-RateLimit-Limit: 20\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1791115230000",
		"X-Ratelimit-Limit-Tokens: 1e21\nX-Ratelimit-Reset-Tokens: 99999999999h\nX-Groq-Id: 1\nApim-Request-Id: 2",
	} {
		f.Add(lines, "api.groq.com:443", int64(1791115200))
	}
	f.Fuzz(func(t *testing.T, lines, host string, now int64) {
		h, at := headerstest.Parse(lines), time.Unix(now%(1<<40), 0)
		l := Limits(h, host, at)
		for _, one := range []ratelimit.ProviderLimit{l.RPM, l.TPM, l.ITPM, l.OTPM, l.RPD, l.TPD} {
			if one.Limit < 0 || int64(one.Limit) > MaxCount || one.Remaining < 0 || int64(one.Remaining) > MaxCount ||
				one.Reset < 0 || one.Reset > MaxReset || !one.HasRemaining && (one.Remaining != 0 || one.Rounding != 0) {
				t.Errorf("out of range: %+v", one)
			}
		}
		if again := Limits(h, host, at); again != l {
			t.Errorf("first %+v, then %+v", l, again)
		}
		if delay, ok := RetryAfter(h, at); delay < 0 || delay > MaxReset || !ok && delay != 0 {
			t.Errorf("retry after %v, %v", delay, ok)
		}
	})
}

func BenchmarkLimits(b *testing.B) {
	for name, lines := range map[string]string{"openai": openAIHeaders, "anthropic": anthropicHeaders, "none": "Content-Type: a\nDate: b\nServer: c"} {
		h := headerstest.Parse(lines)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Limits(h, "api.example.com", headerstest.Now)
			}
		})
	}
}
