package doctor

import "time"

// Told is a report on what the library says.
func Told(now time.Time, errs ...error) *Report {
	e := &examination{Settings: Settings{Now: now}}
	for _, err := range errs {
		e.told(err)
	}
	return &e.Report
}
