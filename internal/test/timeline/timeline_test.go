package main

import (
	"encoding/xml"
	"os"
	"strings"
	"testing"
	"time"
)

func TestReadmeShowsWhatIsDrawn(t *testing.T) {
	scenes, err := parse(recorded)
	if err != nil {
		t.Fatal(err)
	}
	drawn := draw(scenes)
	inDocs, err := os.ReadFile("../../../docs/timeline.svg")
	if err != nil || strings.ReplaceAll(string(inDocs), "\r\n", "\n") != drawn {
		t.Errorf("docs/timeline.svg is not what is drawn, %v: go run ./internal/test/timeline > docs/timeline.svg", err)
	}
	var parts struct{}
	if err := xml.Unmarshal([]byte(drawn), &parts); err != nil {
		t.Error(err)
	}
}

// What the picture claims is in the recording.
func TestRecording(t *testing.T) {
	scenes, err := parse(recorded)
	if err != nil {
		t.Fatal(err)
	}
	if s := scenes[limited]; len(s[arrived]) != calls || len(s[refused]) != 0 || len(s[failed]) != 0 {
		t.Errorf("with the library: %s", s.summary())
	}
	if s := scenes[retrying]; len(s[asked]) != calls || len(s[refused]) == 0 {
		t.Errorf("with a retry loop: %s", s.summary())
	}
	for name, s := range scenes {
		for _, at := range s[arrived] {
			if n := within(s[arrived], at); n > allowed {
				t.Errorf("%s: %d requests in the minute up to %v", name, n, at)
			}
		}
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"a,asked,5\nb,asked": "line 2: want three fields", "a,asked,x": "line 1: strconv", "": "line 1: want three fields",
	} {
		if _, err := parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	s := scene{asked: {0, time.Second}, arrived: {2 * time.Second}, failed: {70 * time.Second}}
	for at, want := range map[time.Duration]int{0: 1, time.Second: 2, 2 * time.Second: 1, 70 * time.Second: 0} {
		if got := s.waiting(at); got != want {
			t.Errorf("%d wait at %v, want %d", got, at, want)
		}
	}
	if within(s[arrived], 62*time.Second) != 0 || within(s[arrived], 61999*time.Millisecond) != 1 {
		t.Error("a request counts for a minute")
	}
}
