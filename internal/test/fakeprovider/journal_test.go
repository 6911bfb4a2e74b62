package fakeprovider

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// status sends a call to a server and returns the status of the answer.
func status(s *Server) int {
	w := httptest.NewRecorder()
	body := strings.NewReader(`{"model":"m","max_tokens":10,"messages":[{"content":"12345678"}]}`)
	s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/chat/completions", body))
	return w.Code
}

// TestLimitsSurviveARestart has a server whose journal the next one goes on with.
func TestLimitsSurviveARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	synctest.Test(t, func(t *testing.T) {
		config := map[string]Config{"": {Limits: Limits{RPM: 2, TPM: 100}}}
		start := func() *Server {
			s := New(Options{Answer: func(*Call) Answer { return Answer{Usage: Usage{Prompt: 2, Output: 3}} }}, config)
			if err := s.Keep(path); err != nil {
				t.Fatal(err)
			}
			return s
		}
		first := start()
		status(first)
		time.Sleep(time.Second)
		status(first)
		if err := first.CloseJournal(); err != nil {
			t.Fatal(err)
		}
		appendText(t, path, `{"at":`) // a crash while it wrote

		second := start()
		statuses := []int{status(second)}
		time.Sleep(59 * time.Second)
		statuses = append(statuses, status(second), status(second))
		if err := second.CloseJournal(); err != nil {
			t.Fatal(err)
		}
		if statuses[0] != 429 || statuses[1] != 200 || statuses[2] != 429 {
			t.Errorf("statuses after the restart: %v", statuses)
		}
		records, err := ReadJournal(path)
		if err != nil || len(records) != 5 {
			t.Fatalf("%d records, %v", len(records), err)
		}
		for i, refused := range []bool{false, false, true, false, true} {
			if r := records[i]; r.Refused != refused || r.Model != "m" || r.Charge[RPM] != 1 || r.Charge[TPM] != 5 {
				t.Errorf("record %d: %+v", i, r)
			}
		}
		if r := records[3]; r.Status != 200 || r.Prompt != 2 || r.Output != 3 || !r.At.Equal(time.Now()) {
			t.Errorf("record %+v", r)
		}
	})
}

func TestJournalThatCannotBeRead(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":           "hello\n",
		"unknown dimension": `{"charge":{"XPM":1}}` + "\n",
		"charge below zero": `{"charge":{"RPM":-1}}` + "\n",
	} {
		path := filepath.Join(t.TempDir(), "journal")
		appendText(t, path, text)
		if err := New(Options{}, nil).Keep(path); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if records, err := ReadJournal(filepath.Join(t.TempDir(), "none")); records != nil || err != nil {
		t.Errorf("no file: %v, %v", records, err)
	}
}

func appendText(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(text)
		f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A first run has no folder for its state yet.
func TestJournalMakesItsFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "folder", "journal")
	s := New(Options{}, nil)
	if err := s.Keep(path); err != nil {
		t.Fatal(err)
	}
	if err := s.CloseJournal(); err != nil {
		t.Fatal(err)
	}
	if records, err := ReadJournal(path); len(records) > 0 || err != nil {
		t.Errorf("%v, %v", records, err)
	}
}
