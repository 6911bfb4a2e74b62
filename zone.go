package ratelimit

import (
	"errors"
	"fmt"
	"path"
	"sync"
	"time"
)

// zones holds the zones that were loaded. There are some six hundred names.
var zones sync.Map // string to *time.Location

// loadZone returns the zone with an IANA name; nil for an empty name.
func loadZone(name string) (*time.Location, error) {
	if name == "" {
		return nil, nil
	}
	if zone, ok := zones.Load(name); ok {
		return zone.(*time.Location), nil
	}
	if path.Clean(name) != name { // another way to write a name, of which there is no end
		return nil, unknownZone(name, errors.New("not an IANA name"))
	}
	if name == "Local" { // not the name of a zone, and another one on another machine
		return nil, unknownZone(name, errors.New("not an IANA name"))
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, unknownZone(name, err)
	}
	zones.Store(name, zone)
	return zone, nil
}

func unknownZone(name string, err error) error {
	return fmt.Errorf(`unknown time zone %q, want an IANA name such as "America/Los_Angeles"; without a time zone database on the machine, import _ "time/tzdata": %w`,
		clip(name), printable{err})
}
