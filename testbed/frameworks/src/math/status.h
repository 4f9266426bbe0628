/* What the generated functions of a library call, and the answers of each library. */
#ifndef STANDIN_STATUS_H
#define STANDIN_STATUS_H

/* Say once on stderr that the stand-in does not do this, and return the library's own "not supported". */
int standin_refuse(const char *library, const char *function, int status);

#endif
