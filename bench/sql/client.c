/* The client of the benchmarks, with minimal overhead between the timer and the server.
 *
 *   client statements SOCKET DATABASE FILE            executes the statements of the file, one per line
 *   client point SOCKET DATABASE QUERY IDS SECONDS SEED
 *       executes a prepared query, whose parameter is a uniform number of 1..IDS, after a second of warm-up
 *   client timed_point SOCKET DATABASE QUERY IDS SECONDS SEED WARM_UP
 *       the same after WARM_UP seconds, and also reports latencies
 *
 * Prints one line of JSON. On an error, prints a message to stderr and exits with a nonzero status.
 */
#include <errno.h>
#include <mysql.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return (double) at.tv_sec + (double) at.tv_nsec / 1e9;
}

static void fail(const char *what, const char *message)
{
  fprintf(stderr, "client: %s: %s\n", what, message);
  exit(1);
}

static uint64_t draw(uint64_t *state)
{
  uint64_t mixed = (*state += 0x9e3779b97f4a7c15ULL);
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ULL;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebULL;
  return mixed ^ (mixed >> 31);
}

static int statements(MYSQL *server, const char *path)
{
  FILE *file = fopen(path, "r");
  if (!file)
    fail(path, strerror(errno));
  char *line = NULL;
  size_t capacity = 0;
  ssize_t length;
  uint64_t count = 0, rows = 0;
  double longest = 0, began = now();
  while ((length = getline(&line, &capacity, file)) > 0)
  {
    while (length > 0 && (line[length - 1] == '\n' || line[length - 1] == ';'))
      length--;
    double sent = now();
    if (mysql_real_query(server, line, (unsigned long) length))
      fail("statement", mysql_error(server));
    double took = now() - sent;
    if (took > longest)
      longest = took;
    count++;
    rows += mysql_affected_rows(server);
  }
  printf("{\"seconds\": %.6f, \"statements\": %llu, \"rows\": %llu, \"longest\": %.6f}\n", now() - began,
         (unsigned long long) count, (unsigned long long) rows, longest);
  free(line);
  fclose(file);
  return 0;
}

enum { COLUMNS_MAX = 32, COLUMN_BYTES_MAX = 256 };

/* The latencies of statements, in seconds. */
struct latencies
{
  double *values;
  size_t count, capacity;
};

static void record(struct latencies *latencies, double value)
{
  if (latencies->count == latencies->capacity)
  {
    latencies->capacity = latencies->capacity ? 2 * latencies->capacity : 1 << 16;
    latencies->values = realloc(latencies->values, latencies->capacity * sizeof(double));
    if (!latencies->values)
      fail("latencies", "no memory");
  }
  latencies->values[latencies->count++] = value;
}

static int compare(const void *one, const void *other)
{
  double a = *(const double *) one, b = *(const double *) other;
  return (a > b) - (a < b);
}

static double quantile(const struct latencies *latencies, double share)
{
  return latencies->count ? latencies->values[(size_t) (share * (double) (latencies->count - 1))] : 0;
}

/* With a negative `warm_up` it is one second, and no latencies are measured: more frequent reads of the clock would
 * affect the rate. */
static int point(MYSQL *server, const char *query, uint64_t ids, double seconds, uint64_t seed, double warm_up)
{
  int is_timed = warm_up >= 0;
  struct latencies latencies = {0};
  static char values[COLUMNS_MAX][COLUMN_BYTES_MAX];
  MYSQL_BIND parameter, columns[COLUMNS_MAX];
  unsigned long lengths[COLUMNS_MAX];
  uint64_t id = 0;
  if (!is_timed)
    warm_up = 1;
  MYSQL_STMT *statement = mysql_stmt_init(server);
  if (mysql_stmt_prepare(statement, query, (unsigned long) strlen(query)))
    fail(query, mysql_stmt_error(statement));
  memset(&parameter, 0, sizeof parameter);
  parameter.buffer_type = MYSQL_TYPE_LONGLONG;
  parameter.buffer = &id;
  parameter.is_unsigned = 1;
  memset(columns, 0, sizeof columns);
  unsigned count = mysql_stmt_field_count(statement);
  if (count > COLUMNS_MAX)
    fail(query, "too many columns");
  for (unsigned i = 0; i < count; i++)
  {
    columns[i].buffer_type = MYSQL_TYPE_STRING;
    columns[i].buffer = values[i];
    columns[i].buffer_length = COLUMN_BYTES_MAX;
    columns[i].length = &lengths[i];
  }
  if (mysql_stmt_bind_param(statement, &parameter) || mysql_stmt_bind_result(statement, columns))
    fail("bind", mysql_stmt_error(statement));

  uint64_t done = 0, found = 0;
  int warm = 0;
  double began = now();
  for (;;)
  {
    double sent = 0;
    if (is_timed || done % 64 == 0)
    {
      sent = now();
      double passed = sent - began;
      if (!warm && passed >= warm_up)
      {
        warm = 1;
        done = found = 0;
        began = sent;
      }
      else if (warm && passed >= seconds)
        break;
    }
    id = (uint64_t) (((unsigned __int128) draw(&seed) * ids) >> 64) + 1;
    if (mysql_stmt_execute(statement) || mysql_stmt_store_result(statement))
      fail("execute", mysql_stmt_error(statement));
    int status;
    while ((status = mysql_stmt_fetch(statement)) == 0)
      found++;
    if (status != MYSQL_NO_DATA)
      fail("fetch", mysql_stmt_error(statement));
    mysql_stmt_free_result(statement);
    done++;
    if (is_timed && warm)
      record(&latencies, now() - sent);
  }
  printf("{\"seconds\": %.6f, \"statements\": %llu, \"rows\": %llu", now() - began, (unsigned long long) done,
         (unsigned long long) found);
  if (is_timed)
  {
    if (latencies.count)
      qsort(latencies.values, latencies.count, sizeof(double), compare);
    printf(", \"p50\": %.9f, \"p999\": %.9f, \"longest\": %.9f", quantile(&latencies, 0.5), quantile(&latencies, 0.999),
           quantile(&latencies, 1));
    free(latencies.values);
  }
  puts("}");
  mysql_stmt_close(statement);
  return 0;
}

int main(int argc, char **argv)
{
  if (argc < 5)
    fail("usage", "statements SOCKET DATABASE FILE | point SOCKET DATABASE QUERY IDS SECONDS SEED | "
                  "timed_point SOCKET DATABASE QUERY IDS SECONDS SEED WARM_UP");
  MYSQL *server = mysql_init(NULL);
  if (!mysql_real_connect(server, NULL, "root", "", argv[3], 0, argv[2], 0))
    fail("connect", mysql_error(server));
  int status = 2;
  if (!strcmp(argv[1], "statements"))
    status = statements(server, argv[4]);
  else if (!strcmp(argv[1], "point") && argc == 8)
    status = point(server, argv[4], strtoull(argv[5], NULL, 10), atof(argv[6]), strtoull(argv[7], NULL, 10), -1);
  else if (!strcmp(argv[1], "timed_point") && argc == 9)
    status = point(server, argv[4], strtoull(argv[5], NULL, 10), atof(argv[6]), strtoull(argv[7], NULL, 10), atof(argv[8]));
  else
    fprintf(stderr, "client: unknown command\n");
  mysql_close(server);
  return status;
}
