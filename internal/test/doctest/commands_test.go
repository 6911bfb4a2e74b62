// Commands: the tests that a document names exist.

package doctest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

var (
	testCommand = regexp.MustCompile("`[^`\n]*?go test ([^`\n]*)`")
	runFlag     = regexp.MustCompile(`-run (?:'([^']*)'|(\S+))`)
	runFolder   = regexp.MustCompile("Run the\\s+commands\\s+in\\s+`([^`]*)`")
	testFunc    = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)
)

// A pattern that matches no test passes, and shows nothing.
func TestReliabilityNamesTestsThatExist(t *testing.T) {
	if racetest.Factor > 1 {
		t.Skip("has one goroutine, which the race detector only slows down")
	}
	text, err := os.ReadFile("../../../docs/reliability.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	for _, section := range strings.Split(string(text), "\n## ") {
		folder := "."
		if found := runFolder.FindStringSubmatch(section); found != nil {
			folder = found[1]
		}
		for _, found := range testCommand.FindAllStringSubmatch(section, -1) {
			commands++
			command := strings.ReplaceAll(found[1], `\|`, "|")
			if missing := missingTest(t, folder, command); missing != "" {
				t.Errorf("go test %s: no test matches %q", command, missing)
			}
		}
	}
	if commands < 20 {
		t.Errorf("only %d commands were found", commands)
	}
}

// missingTest returns a pattern of a command's -run that matches no test of its packages, or "".
// Without -run the packages have to have a test.
func missingTest(t *testing.T, folder, command string) string {
	t.Helper()
	var tests []string
	for _, word := range strings.Fields(command) {
		if word != "." && !strings.HasPrefix(word, "./") {
			continue
		}
		files, err := filepath.Glob(filepath.Join("../../..", folder, word, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range testFunc.FindAllStringSubmatch(string(source), -1) {
				tests = append(tests, found[1])
			}
		}
	}
	patterns := []string{"."}
	if found := runFlag.FindStringSubmatch(command); found != nil {
		patterns = []string{found[1] + found[2]}
		if !strings.Contains(found[1], "(") {
			patterns = strings.Split(patterns[0], "|")
		}
	}
	for _, pattern := range patterns {
		if !slices.ContainsFunc(tests, regexp.MustCompile(pattern).MatchString) {
			return pattern
		}
	}
	return ""
}
