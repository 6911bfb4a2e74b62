package main

import (
	"net/http"
	"time"
)

// tally is what a machine has told, over all of its processes. The zero value is one that has not
// been started.
type tally struct {
	runs     bool
	sent     int
	answered int
	refused  int // 429
	failed   int // any other status, or none
	cut      int // calls that a kill has ended
	left     int // calls that the end of the run has ended

	rpm, tpm int  // what the machine knows of the last minute of all
	away     bool // it cannot use Redis

	killed, again time.Time // zero for never
}

// open returns how many calls are under way.
func (t *tally) open() int {
	return t.sent - t.answered - t.refused - t.failed - t.cut - t.left
}

func (t *tally) call(e event) {
	switch {
	case e.Kind == eventSent:
		t.sent++
	case e.Status == http.StatusOK:
		t.answered++
	case e.Status == http.StatusTooManyRequests:
		t.refused++
	default:
		t.failed++
	}
}

func (t *tally) state(e event) { t.rpm, t.tpm, t.away = e.RPM, e.TPM, e.Text != "" }

// stopped notes that the process has ended.
func (t *tally) stopped(killed bool) {
	if killed {
		t.cut += t.open()
	} else {
		t.left += t.open()
	}
	t.runs, t.away = false, false
}
