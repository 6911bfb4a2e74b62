package cli

import (
	"encoding/json"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// ran runs the program, and returns its status and what it wrote.
func ran(t *testing.T, arguments ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errOut strings.Builder
	status = Run(arguments, &out, &errOut)
	return status, out.String(), errOut.String()
}

func TestEnvPrintsLinesToPaste(t *testing.T) {
	for _, test := range []struct {
		arguments string
		want      string
	}{
		{"claude --shell sh", "export ANTHROPIC_BASE_URL=http://127.0.0.1:8787\nexport ENABLE_TOOL_SEARCH=true\n"},
		{"claude --shell fish --upstream anthropic", "set -gx ANTHROPIC_BASE_URL http://127.0.0.1:8787/anthropic\nset -gx ENABLE_TOOL_SEARCH true\n"},
		{"anthropic-ts --shell powershell", "$env:ANTHROPIC_BASE_URL = 'http://127.0.0.1:8787'\n# or: new Anthropic({ baseURL: \"http://127.0.0.1:8787\" })\n"},
		{"codex --upstream openai --listen 127.0.0.1:9000", `# In ~/.codex/config.toml, the first line above every [table]:
model_provider = "ratelimit"

[model_providers.ratelimit]
name = "OpenAI through ratelimit"
base_url = "http://127.0.0.1:9000/openai/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
`},
		{"litellm --shell sh --upstream azure", `# For a proxy of OpenAI:
export OPENAI_BASE_URL=http://127.0.0.1:8787/azure/v1
# or: litellm.completion(model="openai/…", api_base="http://127.0.0.1:8787/azure/v1", …)

# For a proxy of Anthropic:
export ANTHROPIC_API_BASE=http://127.0.0.1:8787/azure
# or: litellm.completion(model="anthropic/…", api_base="http://127.0.0.1:8787/azure", …)
`},
		{"aider --shell sh --upstream anthropic", "export ANTHROPIC_API_BASE=http://127.0.0.1:8787/anthropic\n"},
		{"aider --shell sh --upstream anthropic --listen https://quota.example.com/", "export ANTHROPIC_API_BASE=https://quota.example.com/anthropic\n"},
		{"aider --shell sh --upstream anthropic --listen [::1]:8787", "export ANTHROPIC_API_BASE='http://[::1]:8787/anthropic'\n"},
		{"aider --shell sh --upstream anthropic --listen :8787", "export ANTHROPIC_API_BASE=http://127.0.0.1:8787/anthropic\n"},
		{"curl --shell powershell --upstream gemini", "curl http://127.0.0.1:8787/gemini/v1beta/models/gemini-3.8-flash:generateContent -H 'Content-Type: application/json' -H \"x-goog-api-key: $env:GEMINI_API_KEY\" -d '{\"contents\": [{\"parts\": [{\"text\": \"Hello\"}]}]}'\n"},
	} {
		status, stdout, stderr := ran(t, strings.Fields("env "+test.arguments)...)
		if status != exitOK || stdout != test.want || stderr != "" {
			t.Errorf("env %s: status %d, stderr %q, stdout\n%s\nwant\n%s", test.arguments, status, stderr, stdout, test.want)
		}
	}
}

func TestEnvWithoutNameListsClients(t *testing.T) {
	status, stdout, _ := ran(t, "env")
	if lines := strings.Count(stdout, "\n"); status != exitOK || lines != len(clients()) {
		t.Fatalf("status %d, %d lines, want one for each of the %d clients:\n%s", status, lines, len(clients()), stdout)
	}
	for _, name := range strings.Fields("claude codex opencode gemini-cli aider openai-python openai-node anthropic-python anthropic-ts google-genai litellm langchain curl") {
		if !regexp.MustCompile(`(?m)^` + name + ` +\S`).MatchString(stdout) {
			t.Errorf("%s is not listed", name)
		}
	}
}

func TestEnvRefusesMistakes(t *testing.T) {
	for arguments, want := range map[string]string{
		"nosuch":                   "there are claude, codex, ",
		"claude codex":             "want one name",
		"claude --shell tcsh":      `sh, fish or powershell, not "tcsh"`,
		"claude --listen 8787":     "--listen",
		"claude --listen ftp://a":  "--listen",
		"claude --listen http://":  "--listen",
		"claude --upstream a/b":    "--upstream",
		"claude --upstream ../etc": "--upstream",
	} {
		status, stdout, stderr := ran(t, strings.Fields("env "+arguments)...)
		if status != exitUsage || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("env %s: status %d, stdout %q, stderr %q, want status %d and %q", arguments, status, stdout, stderr, exitUsage, want)
		}
	}
}

// The lines of every client can be read by what they are for, and say where they come from.
func TestEnvOfEveryClient(t *testing.T) {
	names := map[string]bool{}
	for _, c := range clients() {
		if names[c.name] {
			t.Errorf("%s is there twice", c.name)
		}
		names[c.name] = true
		if day, err := time.Parse(time.DateOnly, c.read); err != nil || day.Year() < 2026 || c.source == "" || c.about == "" {
			t.Errorf("%s: is said by %q, read %q", c.name, c.source, c.read)
		}
		for _, w := range c.ways {
			text := w.lines("http://127.0.0.1:8787", shells["sh"])
			if !strings.Contains(c.lines("http://127.0.0.1:8787", "", shells["sh"]), "http://127.0.0.1:8787") || strings.ContainsAny(text, "\t") || strings.Contains(text, "{url}") {
				t.Errorf("%s: are no lines:\n%s", c.name, text)
			}
			if providerTitles[w.provider] == "" {
				t.Errorf("%s: speaks to %q", c.name, w.provider)
			}
			if strings.HasSuffix(w.file, ".json") && !json.Valid([]byte(w.text)) {
				t.Errorf("%s: no JSON: %s", c.name, w.text)
			}
			if w.file == "" && c.name != "ai-sdk" {
				testShellReads(t, c.name, text)
			}
		}
	}
}

// testShellReads fails unless sh reads the text without an error.
func testShellReads(t *testing.T, name, text string) {
	t.Helper()
	sh, err := exec.LookPath("sh")
	if err != nil {
		return
	}
	command := exec.Command(sh, "-n")
	command.Stdin = strings.NewReader(text)
	if output, err := command.CombinedOutput(); err != nil {
		t.Errorf("%s: sh -n: %v: %s\n%s", name, err, output, text)
	}
}

func TestEnvCompletesNames(t *testing.T) {
	_, stdout, _ := ran(t, "__complete", "env", "")
	if !strings.HasPrefix(stdout, "claude\tClaude Code\n") {
		t.Errorf("completes\n%s", stdout)
	}
}

func TestDefaultShell(t *testing.T) {
	if defaultShell("windows") != "powershell" || defaultShell("darwin") != "sh" || shells[defaultShell("linux")].set == nil {
		t.Error("the shell of a system")
	}
}
